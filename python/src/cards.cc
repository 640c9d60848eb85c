// SPDX-License-Identifier: Apache-2.0
// Fills arrays of the caller's with scenes and questions, on threads of its own and without
// Python's lock. ../fovea/cards.py allocates the arrays and says what they hold.
#include "cards/cards.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "errors.h"
#include "language/tokenizer.h"
#include "lock.h"
#include "module.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

template <class T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

constexpr int kCardColumns = 16;

struct TokenArrays {
  Tokenizer tokenizer;
  Array<int32_t> question_ids;    // [n][questions][question_tokens]
  Array<int8_t> question_length;  // [n][questions]
  Array<int32_t> answer_ids;      // [n][questions][answer_tokens]
  Array<int8_t> answer_length;
};

struct CardArrays {
  Array<uint8_t> images;     // [n][height][width][3]
  Array<int16_t> cards;      // [n][48][16]
  Array<int8_t> family;      // [n][questions]
  Array<uint64_t> evidence;  // [n][questions]
  std::optional<TokenArrays> tokens;
};

using Texts = std::vector<std::vector<std::string>>;  // [n][questions]

void write_card(const Card& card, int16_t* out) {
  const int columns[kCardColumns] = {
      card.card_box.x0,    card.card_box.y0,    card.card_box.width_px(),
      card.shape,          card.colour,         static_cast<int>(card.kind),
      card.payload_box.x0, card.payload_box.y0, card.payload_box.x1,
      card.payload_box.y1, card.code[0],        card.code[1],
      card.number,         card.direction,      card.target,
      card.payload_px};
  for (int i = 0; i < kCardColumns; ++i) out[i] = static_cast<int16_t>(columns[i]);
}

// Writes the ids of a text and -1 behind them; an Error where they do not fit.
Status write_ids(const Tokenizer& tokenizer, const std::string& text, const char* argument,
                 int room, int32_t* out, int8_t* length) {
  const auto ids = tokenizer.encode(text, false);
  if (!ids) return ids.error();
  const int count = static_cast<int>(ids->size());
  if (count > room)
    return bad_input("'" + text + "' has " + std::to_string(count) + " tokens; give " + argument +
                     "=" + std::to_string(count) + " or more");
  std::fill(std::copy(ids->begin(), ids->end(), out), out + room, -1);
  *length = static_cast<int8_t>(count);
  return Done{};
}

Status write_tokens(const TokenArrays& tokens, const CardQuestion& question, int64_t place) {
  const auto question_room = static_cast<int>(tokens.question_ids.shape(2));
  const auto answer_room = static_cast<int>(tokens.answer_ids.shape(2));
  auto written = write_ids(tokens.tokenizer, question.text, "question_tokens", question_room,
                           tokens.question_ids.data() + place * question_room,
                           tokens.question_length.data() + place);
  if (!written) return written;
  return write_ids(tokens.tokenizer, question.answer, "answer_tokens", answer_room,
                   tokens.answer_ids.data() + place * answer_room,
                   tokens.answer_length.data() + place);
}

// One scene and its questions, into row `index` of every array.
Status write_scene(const CardArrays& arrays, const CardOptions& options, uint64_t seed,
                   const std::vector<Family>& families, int64_t index, Texts* questions,
                   Texts* answers) {
  const auto bytes = static_cast<size_t>(options.size.pixels()) * 3;
  const CardScene scene = make_scene_into(
      seed, options, {arrays.images.data() + static_cast<size_t>(index) * bytes, bytes});
  int16_t* cards = arrays.cards.data() + index * kMaxCards * kCardColumns;
  std::fill(cards, cards + kMaxCards * kCardColumns, int16_t{-1});
  for (size_t i = 0; i < scene.cards.size(); ++i)
    write_card(scene.cards[i], cards + i * kCardColumns);

  const auto count = static_cast<int>(arrays.family.shape(1));
  int64_t place = index * count;
  for (CardQuestion& question : make_questions(scene, seed, families, count)) {
    arrays.family.data()[place] = static_cast<int8_t>(question.family);
    uint64_t mask = 0;
    for (const int card : question.evidence) mask |= uint64_t{1} << card;
    arrays.evidence.data()[place] = mask;
    if (arrays.tokens) {
      auto written = write_tokens(*arrays.tokens, question, place);
      if (!written) return written;
    }
    if (questions != nullptr) {
      (*questions)[static_cast<size_t>(index)].push_back(std::move(question.text));
      (*answers)[static_cast<size_t>(index)].push_back(std::move(question.answer));
    }
    ++place;
  }
  return Done{};
}

std::vector<Family> families_of(const std::vector<std::string>& names) {
  std::vector<Family> families;
  for (const std::string& name : names) {
    const auto family = family_of(name);
    if (!family) raise(bad_input("there is no family '" + name + "'"));
    families.push_back(*family);
  }
  return families;
}

// The texts of all questions and answers, where asked for.
std::optional<std::pair<Texts, Texts>> fill_scenes(const CardArrays& arrays,
                                                   const CardOptions& options, uint64_t seed,
                                                   const std::vector<Family>& families,
                                                   bool with_texts, int threads) {
  const auto scenes = static_cast<int64_t>(arrays.images.shape(0));
  Texts questions(with_texts ? static_cast<size_t>(scenes) : 0);
  Texts answers(questions.size());
  std::vector<Status> statuses(static_cast<size_t>(scenes), Done{});
  {
    const Released released;
    const int wanted = threads > 0 ? threads : usable_cores();
    Threads workers(static_cast<int>(std::clamp<int64_t>(scenes, 1, wanted)));
    workers.for_each(scenes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        statuses[static_cast<size_t>(i)] =
            write_scene(arrays, options, seed + static_cast<uint64_t>(i), families, i,
                        with_texts ? &questions : nullptr, with_texts ? &answers : nullptr);
    });
  }
  for (const Status& status : statuses)
    if (!status) raise(status.error());
  if (!with_texts) return std::nullopt;
  return std::pair(std::move(questions), std::move(answers));
}

nb::object fill_cards(uint64_t seed, int cards_min, int cards_max, int payload_min, int payload_max,
                      bool blank_payloads, const std::vector<std::string>& families,
                      const Array<uint8_t>& images, const Array<int16_t>& cards,
                      const Array<int8_t>& family, const Array<uint64_t>& evidence,
                      const Tokenizer* tokenizer, const std::vector<nb::object>& token_arrays,
                      bool texts, int threads) {
  const CardOptions options = {
      .size = {static_cast<int>(images.shape(2)), static_cast<int>(images.shape(1))},
      .cards_min = cards_min,
      .cards_max = cards_max,
      .payload_min_px = payload_min,
      .payload_max_px = payload_max,
      .blank_payloads = blank_payloads};
  const auto good = check_card_options(options);
  if (!good) raise(good.error());
  CardArrays arrays = {images, cards, family, evidence, std::nullopt};
  if (tokenizer != nullptr)
    arrays.tokens.emplace(TokenArrays{*tokenizer, nb::cast<Array<int32_t>>(token_arrays.at(0)),
                                      nb::cast<Array<int8_t>>(token_arrays.at(1)),
                                      nb::cast<Array<int32_t>>(token_arrays.at(2)),
                                      nb::cast<Array<int8_t>>(token_arrays.at(3))});
  auto written = fill_scenes(arrays, options, seed, families_of(families), texts, threads);
  if (!written) return nb::none();
  return nb::make_tuple(nb::cast(std::move(written->first)), nb::cast(std::move(written->second)));
}

nb::list names(int count, std::string_view (*name_of)(int)) {
  nb::list list;
  for (int i = 0; i < count; ++i) list.append(std::string(name_of(i)));
  return list;
}

}  // namespace

void add_cards(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer").def_static("load", [](const std::string& path) {
    auto tokenizer = Tokenizer::load(path);
    if (!tokenizer) raise(tokenizer.error());
    return *std::move(tokenizer);
  });
  module.def("fill_cards", &fill_cards, nb::arg("seed"), nb::arg("cards_min"), nb::arg("cards_max"),
             nb::arg("payload_min"), nb::arg("payload_max"), nb::arg("blank_payloads"),
             nb::arg("families"), nb::arg("images").noconvert(), nb::arg("cards").noconvert(),
             nb::arg("family").noconvert(), nb::arg("evidence").noconvert(),
             nb::arg("tokenizer").none(), nb::arg("token_arrays"), nb::arg("texts"),
             nb::arg("threads"));
  module.attr("SHAPES") = names(kCardShapes, shape_name);
  module.attr("COLOURS") = names(kCardColours, colour_name);
  module.attr("DIRECTIONS") = names(4, direction_name);
  module.attr("FAMILIES") = names(static_cast<int>(kAllFamilies.size()), [](int i) {
    return family_name(kAllFamilies[static_cast<size_t>(i)]);
  });
  module.attr("ALPHABET") = std::string(kCodeAlphabet);
  module.attr("MAX_CARDS") = kMaxCards;
}

}  // namespace fovea::python
