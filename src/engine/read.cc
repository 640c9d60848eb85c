// SPDX-License-Identifier: Apache-2.0
#include "engine/read.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "engine/answer_parts.h"
#include "engine/attention_settings.h"
#include "engine/forget.h"
#include "memory/digest.h"
#include "memory/key_values.h"

namespace fovea {
namespace {

// What the question attends to: from the text after the last image (in an append-only conversation,
// from the message that asks) to all images, in the middle third of the layers. The first layers
// look nearby, the last ones at what comes next. Queries count from the start of the prompt.
AttentionReadout attention_of(const Model& model, const TokenPrompt& prompt) {
  AttentionReadout readout;
  const int layers = model.config().text.num_layers;
  for (int layer = layers / 3; layer < std::max(layers / 3 + 1, 2 * layers / 3); ++layer)
    readout.layers.push_back(layer);
  readout.key_begin = prompt.images.front().begin;
  readout.key_end = prompt.images.back().end;
  readout.query_begin = static_cast<size_t>(std::max(readout.key_end, prompt.question_begin));
  readout.query_end = prompt.ids.size();
  return readout;
}

using GazeRows = std::vector<std::vector<float>>;

// What the keys and values of each token up to the end of the last image depend on besides the
// tokens before it; as far as that is known.
std::vector<Digest> shared_keys(const TokenPrompt& prompt, const AskOptions& options,
                                const std::string& attention, const std::string& formats) {
  std::vector<Digest> keys;
  const int64_t end = prompt.part_ends.empty() ? 0 : prompt.part_ends.back();
  for (int64_t i = 0; i < std::min(end, prompt.tokens() - 1); ++i) {
    const TokenKey& key = prompt.keys[static_cast<size_t>(i)];
    if (key.image >= 0 && key.content == Digest()) break;
    Hasher hasher;
    hasher.text("token").text(options.salt).text(attention).text(formats);
    hasher.value(key.id).value(key.content).value(key.index);
    hasher.value(key.position.time).value(key.position.row).value(key.position.col);
    keys.push_back(hasher.finish());
  }
  return keys;
}

}  // namespace

Reader::Reader(SessionState& state, const TokenPrompt& prompt, const AskOptions& options,
               const ReadGoal& goal, const std::function<bool()>& keep_going)
    : state_(state), model_(*state.model), prompt_(prompt), goal_(goal) {
  by_attention_ = !prompt.images.empty() && (goal.attention || (goal.couple && !model_.gaze));
  if (by_attention_) reading_.attention = attention_of(model_, prompt);
  reading_.attention.wants_last = goal.last_attention;
  first_query_ =
      by_attention_ ? static_cast<int64_t>(reading_.attention.query_begin) : prompt.tokens();
  if (goal.couple && options.share && model_.beginnings)
    shared_ = shared_keys(prompt, options, text_attention(model_, options).text(),
                          stored_formats(model_, options).text());
  if (goal.couple) {
    ends_ = prompt.part_ends;
    if (is_conversation())
      ends_.insert(std::upper_bound(ends_.begin(), ends_.end(), prompt.question_begin),
                   prompt.question_begin);
  }
  work_.memory = &state.memory;
  work_.options.keep_going = keep_going;
  forget_other_settings(options);
  if (goal.forget && row_of(state.forget.policy).by_attention) choose_asking();
  keep_beginning();
  run_begin_ = at();
  state.memory.reserve(prompt.tokens() +
                       std::min(room_for_answer(model_, prompt, options), kAnswerAtOnce));
}

// What was read by another kind of attention is of no use, nor is what was forgotten or stored
// otherwise.
void Reader::forget_other_settings(const AskOptions& options) {
  AttentionSchedule attention = text_attention(model_, options);
  const ForgetSettings forget = forget_of(options);
  const bool forgot_otherwise = state_.memory.forgotten_tokens > 0 && forget != state_.forget;
  const KeyFormats formats = stored_formats(model_, options);
  if (attention != state_.text_attention || forgot_otherwise || formats != state_.memory.formats) {
    state_.memory.truncate(0);
    state_.kept.clear();
    state_.gaze_rows.clear();
    state_.memory.store_as(formats);
  }
  state_.forget = forget;
  if (!attention.is_dense()) images_ = visual_ranges(prompt_);
  work_.options.images = images_;
  work_.options.attention = attention;
  state_.text_attention = std::move(attention);
}

int64_t Reader::end_of_image(int64_t token) const {
  if (!state_.text_attention.has(AttentionKind::kPrefix) || token == 0) return token;
  return prefix_limit(images_, token - 1);
}

// What is left of the first `kept` tokens where keys of them were forgotten: nothing, unless the
// prompt goes on from the one that said which. Their attention by token is not to be had, either.
int64_t Reader::without_forgotten(int64_t kept) const {
  if (state_.memory.forgotten_tokens == 0) return kept;
  return by_attention_ || kept < state_.forgot_at ? 0 : kept;
}

// Forgetting chooses by what the tokens behind the images attend to, of which none was forgotten.
void Reader::choose_asking() {
  const auto differs = std::mismatch(state_.kept.begin(), state_.kept.end(), prompt_.keys.begin(),
                                     prompt_.keys.end());
  const int64_t kept =
      without_forgotten(std::min(differs.first - state_.kept.begin(), prompt_.tokens() - 1));
  const VisualPart part = visual_from(prompt_, kept > 0 ? state_.memory.forgotten_tokens : 0);
  if (part.at.empty()) return;
  by_keys_ = true;
  reading_.keys.key_begin = part.begin();
  reading_.keys.key_end = part.end();
  reading_.keys.query_begin = static_cast<size_t>(first_asking(prompt_, part));
  reading_.keys.query_end = prompt_.ids.size();
  reading_.keys.by_raters = row_of(state_.forget.policy).by_raters;
  first_query_ = std::min(first_query_, static_cast<int64_t>(reading_.keys.query_begin));
}

// Forgets what the prompt has no use for, or what must be read again.
void Reader::keep_beginning() {
  const auto differs = std::mismatch(state_.kept.begin(), state_.kept.end(), prompt_.keys.begin(),
                                     prompt_.keys.end());
  int64_t kept = differs.first - state_.kept.begin();
  // The last token is computed always: its logits are not kept. So are tokens to be read out.
  kept = std::min({kept, prompt_.tokens() - 1, first_query_});
  while (end_of_image(kept) > kept) --kept;  // to where the image begins
  if (goal_.couple) {
    if (model_.gaze) kept = std::min(kept, static_cast<int64_t>(state_.gaze_rows.size()));
    // Of one message in the same pieces as a fresh run, so that the same cells are chosen, to the
    // last bit. A conversation goes on from what it holds.
    int64_t piece = 0;
    for (const int64_t end : ends_)
      if (end <= kept) piece = end;
    leaves_ = !is_conversation() || kept == 0;
    kept = is_conversation() ? std::max(piece, std::min(kept, prompt_.question_begin)) : piece;
  }
  kept = without_forgotten(kept);
  state_.memory.truncate(kept);
  state_.kept.resize(static_cast<size_t>(kept));
  state_.gaze_rows.resize(std::min(state_.gaze_rows.size(), state_.kept.size()));
  if (!shared_.empty()) take_beginning();
  reading_.kept_tokens = at();
}

// More of the beginning than this session holds, where another one has read it: in the same
// pieces, so that it is the same to the last bit.
void Reader::take_beginning() {
  if (state_.memory.forgotten_tokens > 0) return;  // it goes on from what it holds
  state_.memory.open(model_.config().text);
  const auto found =
      model_.beginnings->find(shared_, shared_ends(), at(), tables_of(state_.memory.layers));
  const int64_t tokens = state_.memory.tokens();
  if (found.tokens > 0) {
    state_.kept.assign(prompt_.keys.begin(), prompt_.keys.begin() + tokens);
    state_.gaze_rows = *std::static_pointer_cast<const GazeRows>(found.extra);
  }
  state_.kept.resize(static_cast<size_t>(tokens));
  state_.gaze_rows.resize(std::min(state_.gaze_rows.size(), state_.kept.size()));
}

void Reader::leave_beginning() {
  if (state_.memory.forgotten_tokens > 0) return;  // what others may share is whole
  const size_t tokens = state_.kept.size();
  if (tokens > shared_.size() || (model_.gaze && state_.gaze_rows.size() != tokens)) return;
  model_.beginnings->insert(std::span(shared_).first(tokens),
                            tables_of(std::as_const(state_.memory).layers),
                            std::make_shared<const GazeRows>(state_.gaze_rows));
}

std::span<const int64_t> Reader::shared_ends() const {
  const auto past = std::upper_bound(prompt_.part_ends.begin(), prompt_.part_ends.end(),
                                     static_cast<int64_t>(shared_.size()));
  return {prompt_.part_ends.begin(), past};
}

// To the next of the ends, or to that of the prompt. Where requests follow one another, others have
// to come in between: it ends where the decoder's own chunks do, so that the bits are the same.
Reader::Piece Reader::next_piece() const {
  Piece piece{.begin = at(), .end = prompt_.tokens(), .last = true};
  const bool shares = model_.device->shares_passes();
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), piece.begin);
  if (end != ends_.end()) {
    // One pass more that others could share costs more than the question's last layers.
    if (shares && by_attention_ && !goal_.answer && !model_.gaze && end + 1 == ends_.end())
      piece.keep = *end;
    else
      piece = {piece.begin, *end, false};
  }
  const bool passing = piece.last && !goal_.answer;
  if (shares || passing) return piece;
  const int64_t chunk =
      end_of_image(run_begin_ + ((piece.begin - run_begin_) / kDecoderChunk + 1) * kDecoderChunk);
  const bool read_out = chunk > first_query_;
  if (chunk < piece.end && !(piece.last && read_out)) piece = {piece.begin, chunk, false};
  return piece;
}

ForwardRequest* Reader::next() {
  if (reading_.done) return nullptr;
  piece_ = next_piece();
  storage_ = run_of(prompt_, piece_.begin, piece_.end);
  work_.run = storage_.run;
  ForwardOptions& options = work_.options;
  // Rows go on without a gap or not at all.
  options.hidden = nullptr;
  if (model_.gaze && at() == static_cast<int64_t>(state_.gaze_rows.size())) {
    hidden_.layers = model_.gaze->config().layer;
    options.hidden = &hidden_;
  }
  const bool answers = piece_.last && goal_.answer;
  if (piece_.last && by_attention_) {
    reading_.attention.query_begin -= static_cast<size_t>(piece_.begin);
    reading_.attention.query_end -= static_cast<size_t>(piece_.begin);
    options.readout = &reading_.attention;
  }
  if (piece_.last && by_keys_) {
    reading_.keys.query_begin -= static_cast<size_t>(piece_.begin);
    reading_.keys.query_end -= static_cast<size_t>(piece_.begin);
    options.keys = &reading_.keys;
  }
  const bool passing = piece_.last && !goal_.answer;
  options.layers = passing && piece_.keep == 0 ? layers_to_couple() : 0;
  options.leave_logits = answers && goal_.leave;
  work_.wants_logits = answers && !goal_.leave;
  return &work_;
}

Result<bool> Reader::take() {
  if (!work_.status) return work_.status.error();
  if (work_.stopped) return false;
  reading_.logits = std::move(work_.logits);
  work_.logits = Buffer<float>();
  reading_.left_logits = work_.options.leave_logits;
  const bool passing = piece_.last && !goal_.answer;
  if (work_.options.hidden != nullptr) add_rows(passing ? reading_.gaze_rows : state_.gaze_rows);
  const int64_t kept = passing ? piece_.keep : piece_.end;
  if (passing && kept > 0) state_.memory.truncate(kept);
  if (kept > piece_.begin)
    state_.kept.insert(state_.kept.end(), prompt_.keys.begin() + piece_.begin,
                       prompt_.keys.begin() + kept);
  if (!piece_.last && std::binary_search(ends_.begin(), ends_.end(), piece_.end)) {
    run_begin_ = piece_.end;
    // Later rounds read what the question chose.
    if (!goal_.answer && leaves_ && piece_.end != prompt_.question_begin) leave_beginning();
  }
  reading_.done = piece_.last;
  return true;
}

Reading Reader::finish() {
  reading_.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  return std::move(reading_);
}

int Reader::layers_to_couple() const {
  int layers = model_.gaze ? model_.gaze->config().layer : 0;
  for (const int layer : reading_.attention.layers) layers = std::max(layers, layer + 1);
  return layers;
}

void Reader::add_rows(GazeRows& rows) const {
  const GazeHead& head = *model_.gaze;
  const int64_t width = model_.config().text.hidden_size;
  const int64_t begin = piece_.begin;
  const int64_t end = piece_.end;
  const auto first = static_cast<int64_t>(rows.size());
  rows.resize(rows.size() + static_cast<size_t>(end - begin));
  const auto fill = [&](int64_t from, int64_t to, bool text) {
    if (from >= to) return;
    const float* states = hidden_.hidden.data() + (from - begin) * width;
    const Buffer<float> made = text ? head.queries(*model_.threads, states, to - from)
                                    : head.keys(*model_.threads, states, to - from);
    const auto size = static_cast<int64_t>(made.size()) / (to - from);
    for (int64_t i = from; i < to; ++i)
      rows[static_cast<size_t>(first + i - begin)].assign(made.begin() + (i - from) * size,
                                                          made.begin() + (i - from + 1) * size);
  };
  int64_t text_begin = begin;
  for (const ImageRange& image : prompt_.images) {
    fill(text_begin, std::min(image.begin, end), true);
    fill(std::max(image.begin, begin), std::min(image.glance_end, end), false);
    text_begin = std::max(image.end, begin);
  }
  fill(text_begin, end, true);
}

namespace {

// The part of a prompt that shows the glance of an image; null where none does.
const ImageRange* glance_of(const TokenPrompt& prompt, int image) {
  for (const ImageRange& range : prompt.images)
    if (range.image == image && range.glance_end > range.begin) return &range;
  return nullptr;
}

Result<Map> couple_by_head(const SessionState& state, const TokenPrompt& prompt,
                           const Reading& reading, const ImageRange& range, Size canvas,
                           int level) {
  const auto append = [&](std::vector<float>& all, int64_t token) {
    const auto i = static_cast<size_t>(token);
    const size_t kept = state.gaze_rows.size();
    const auto& row = i < kept ? state.gaze_rows[i] : reading.gaze_rows[i - kept];
    all.insert(all.end(), row.begin(), row.end());
  };
  std::vector<float> keys;
  for (int64_t i = range.begin; i < range.glance_end; ++i) append(keys, i);
  std::vector<float> queries;
  for (int64_t i = std::max(range.end, prompt.question_begin); i < prompt.tokens(); ++i)
    if (prompt.keys[static_cast<size_t>(i)].image < 0) append(queries, i);
  const Model& model = *state.model;
  return gaze_map(gaze_shares(*model.threads, model.gaze->config(), queries, keys, canvas, level));
}

Result<Map> couple_by_attention(const Reading& reading, const ImageRange& range, Grid grid) {
  Map map(grid);
  const float* mass = reading.attention.mass.data() + (range.begin - reading.attention.key_begin);
  if (!std::all_of(mass, mass + map.score.size(), [](float value) { return std::isfinite(value); }))
    return failed(
        "the model's attention overflows; its weights may be damaged, or try weights of f32");
  const float most = *std::max_element(mass, mass + map.score.size());
  for (size_t i = 0; i < map.score.size(); ++i)
    if (most > 0) map.score[i] = static_cast<uint16_t>(mass[i] / most * 65535 + 0.5f);
  return map;
}

}  // namespace

Result<Map> couple(const SessionState& state, const TokenPrompt& prompt, const Reading& reading,
                   int image) {
  const ImageRange* range = glance_of(prompt, image);
  if (range == nullptr) return Map{};
  const ImageView& view = state.views[static_cast<size_t>(image)];
  const Size canvas = view.prepared->canvas();
  const int level = view.parts.front().cells.front().level;
  return state.model->gaze ? couple_by_head(state, prompt, reading, *range, canvas, level)
                           : couple_by_attention(reading, *range, grid_at(canvas, level));
}

double confidence_of(std::span<const float> logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - double{most});
  return 1 / sum;
}

}  // namespace fovea
