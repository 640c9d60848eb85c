// SPDX-License-Identifier: Apache-2.0
#include "engine/read.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "engine/answer_parts.h"

namespace fovea {
namespace {

// From the text after the last image to all images, in the middle third of the layers: the first
// ones look nearby, the last ones at what comes next. Queries count from the start of the prompt.
AttentionReadout attention_of(const Model& model, const TokenPrompt& prompt) {
  AttentionReadout readout;
  const int layers = model.config().text.num_layers;
  for (int layer = layers / 3; layer < std::max(layers / 3 + 1, 2 * layers / 3); ++layer)
    readout.layers.push_back(layer);
  readout.key_begin = prompt.images.front().begin;
  readout.key_end = prompt.images.back().end;
  readout.query_begin = static_cast<size_t>(readout.key_end);
  readout.query_end = prompt.ids.size();
  return readout;
}

class Reader {
 public:
  Reader(SessionState& state, const TokenPrompt& prompt, const ReadGoal& goal,
         const std::function<bool()>& keep_going)
      : state_(state), model_(*state.model), prompt_(prompt), goal_(goal), keep_going_(keep_going) {
    by_attention_ = !prompt.images.empty() && (goal.attention || (goal.couple && !model_.gaze));
    if (by_attention_) reading_.attention = attention_of(model_, prompt);
  }

  // Forgets what the prompt has no use for, or what must be read again.
  void keep_beginning() {
    const auto differs = std::mismatch(state_.kept.begin(), state_.kept.end(), prompt_.keys.begin(),
                                       prompt_.keys.end());
    int64_t kept = differs.first - state_.kept.begin();
    // The last token is computed always: its logits are not kept. So are tokens to be read out.
    kept = std::min(kept, prompt_.tokens() - 1);
    if (by_attention_) kept = std::min(kept, static_cast<int64_t>(reading_.attention.query_begin));
    if (goal_.couple) {
      if (model_.gaze) kept = std::min(kept, static_cast<int64_t>(state_.gaze_rows.size()));
      // In the same pieces as a fresh run, so that the same cells are chosen, to the last bit.
      int64_t piece = 0;
      for (const int64_t end : prompt_.part_ends)
        if (end <= kept) piece = end;
      kept = piece;
    }
    state_.memory.truncate(kept);
    state_.kept.resize(static_cast<size_t>(kept));
    state_.gaze_rows.resize(std::min(state_.gaze_rows.size(), state_.kept.size()));
    reading_.kept_tokens = kept;
  }

  Reading read() {
    if (goal_.couple)
      for (const int64_t end : prompt_.part_ends)
        if (end > at() && !read_piece(end, false)) return std::move(reading_);
    reading_.done = read_piece(prompt_.tokens(), true);
    return std::move(reading_);
  }

 private:
  int64_t at() const { return static_cast<int64_t>(state_.kept.size()); }

  bool read_piece(int64_t end, bool last) {
    const int64_t begin = at();
    const RunStorage part = run_of(prompt_, begin, end);
    DecodeOptions options;
    options.keep_going = keep_going_;
    HiddenReadout hidden;
    // Rows go on without a gap or not at all.
    const bool rows = model_.gaze && at() == static_cast<int64_t>(state_.gaze_rows.size());
    if (rows) {
      hidden.layers = model_.gaze->config().layer;
      options.hidden = &hidden;
    }
    if (last && by_attention_) {
      reading_.attention.query_begin -= static_cast<size_t>(begin);
      reading_.attention.query_end -= static_cast<size_t>(begin);
      options.readout = &reading_.attention;
    }
    const bool passing = last && !goal_.answer;
    if (passing) options.layers = layers_to_couple();
    Threads& threads = *model_.threads;
    options.leave_logits = last && goal_.answer && goal_.leave;
    if (last && goal_.answer && !goal_.leave) {
      reading_.logits = model_.decoder.decode(threads, part.run, state_.memory, options);
      if (reading_.logits.empty()) return false;
    } else if (!model_.decoder.read(threads, part.run, state_.memory, options)) {
      return false;
    }
    reading_.left_logits = options.leave_logits;
    if (rows) add_rows(begin, end, hidden.hidden, passing ? reading_.gaze_rows : state_.gaze_rows);
    if (!passing)
      state_.kept.insert(state_.kept.end(), prompt_.keys.begin() + begin,
                         prompt_.keys.begin() + end);
    return true;
  }

  int layers_to_couple() const {
    int layers = model_.gaze ? model_.gaze->config().layer : 0;
    for (const int layer : reading_.attention.layers) layers = std::max(layers, layer + 1);
    return layers;
  }

  void add_rows(int64_t begin, int64_t end, const Buffer<float>& hidden,
                std::vector<std::vector<float>>& rows) const {
    const GazeHead& head = *model_.gaze;
    const int64_t width = model_.config().text.hidden_size;
    const auto first = static_cast<int64_t>(rows.size());
    rows.resize(rows.size() + static_cast<size_t>(end - begin));
    const auto fill = [&](int64_t from, int64_t to, bool text) {
      if (from >= to) return;
      const float* states = hidden.data() + (from - begin) * width;
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

  SessionState& state_;
  const Model& model_;
  const TokenPrompt& prompt_;
  const ReadGoal& goal_;
  const std::function<bool()>& keep_going_;
  bool by_attention_ = false;
  Reading reading_;
};

// The part of a prompt that shows the glance of an image; null where none does.
const ImageRange* glance_of(const TokenPrompt& prompt, int image) {
  for (const ImageRange& range : prompt.images)
    if (range.image == image && range.glance_end > range.begin) return &range;
  return nullptr;
}

Map couple_by_head(const SessionState& state, const TokenPrompt& prompt, const Reading& reading,
                   const ImageRange& range, Size canvas, int level) {
  const auto append = [&](std::vector<float>& all, int64_t token) {
    const auto i = static_cast<size_t>(token);
    const size_t kept = state.gaze_rows.size();
    const auto& row = i < kept ? state.gaze_rows[i] : reading.gaze_rows[i - kept];
    all.insert(all.end(), row.begin(), row.end());
  };
  std::vector<float> keys;
  for (int64_t i = range.begin; i < range.glance_end; ++i) append(keys, i);
  std::vector<float> queries;
  for (int64_t i = range.end; i < prompt.tokens(); ++i)
    if (prompt.keys[static_cast<size_t>(i)].image < 0) append(queries, i);
  const Model& model = *state.model;
  return gaze_map(gaze_shares(*model.threads, model.gaze->config(), queries, keys, canvas, level));
}

Map couple_by_attention(const Reading& reading, const ImageRange& range, Grid grid) {
  Map map(grid);
  const float* mass = reading.attention.mass.data() + (range.begin - reading.attention.key_begin);
  const float most = *std::max_element(mass, mass + map.score.size());
  for (size_t i = 0; i < map.score.size(); ++i)
    if (most > 0) map.score[i] = static_cast<uint16_t>(mass[i] / most * 65535 + 0.5f);
  return map;
}

}  // namespace

Reading read_prompt(SessionState& state, const TokenPrompt& prompt, const AskOptions& options,
                    const ReadGoal& goal, const std::function<bool()>& keep_going) {
  const auto start = std::chrono::steady_clock::now();
  Reader reader(state, prompt, goal, keep_going);
  reader.keep_beginning();
  state.memory.reserve(prompt.tokens() +
                       std::min(room_for_answer(*state.model, prompt, options), kAnswerAtOnce));
  Reading reading = reader.read();
  reading.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return reading;
}

Map couple(const SessionState& state, const TokenPrompt& prompt, const Reading& reading,
           int image) {
  const ImageRange* range = glance_of(prompt, image);
  if (range == nullptr) return {};
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
