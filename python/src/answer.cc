// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include <nanobind/stl/string.h>

#include <utility>

#include "arrays.h"
#include "text.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

nb::object times_dict(const std::vector<StageTime>& times) {
  nb::dict made;
  for (const StageTime& time : times) made[time.stage.c_str()] = time.ms;
  return made;
}

// Makes one dataclass after the other of one answer; `owner` keeps the arrays' memory.
class Maker {
 public:
  explicit Maker(nb::capsule owner)
      : words_(nb::module_::import_("fovea.words")), owner_(std::move(owner)) {}

  nb::object answer(Answer& answer, nb::object logits) const {
    nb::list tokens;
    const nb::object token_class = words_.attr("Token");
    for (AnswerToken& token : answer.tokens) tokens.append(this->token(token_class, token));
    nb::list others;
    for (Answer& other : answer.others) others.append(this->answer(other, nb::none()));
    return words_.attr("Answer")(text_object(answer.text), tokens, answer.finish,
                                 trace(answer.trace), others, std::move(logits));
  }

  nb::object sight(Sight& sight) const { return words_.attr("Sight")(*fields_of(sight)); }

 private:
  nb::object token(const nb::object& token_class, AnswerToken& token) const {
    nb::list likely;
    if (!token.likely.empty()) {
      const nb::object likely_class = words_.attr("LikelyToken");
      for (const LikelyToken& one : token.likely)
        likely.append(
            likely_class(one.id, nb::bytes(one.token.data(), one.token.size()), one.logprob));
    }
    nb::list attention;
    for (std::vector<float>& shares : token.attention)
      attention.append(array_of(shares.data(), {shares.size()}, owner_));
    return token_class(token.id, nb::bytes(token.token.data(), token.token.size()), token.logprob,
                       likely, token.ms, attention);
  }

  nb::object trace(Trace& trace) const {
    nb::list looks;
    for (Look& look : trace.looks) looks.append(this->look(look));
    const Usage& usage = trace.usage;
    const nb::object used = words_.attr("Usage")(
        usage.text_tokens, usage.image_tokens, usage.image_tokens_full, usage.patches,
        usage.kept_tokens, usage.answer_tokens, usage.visual_keys, usage.visual_keys_kept,
        usage.kv_bytes_before, usage.kv_bytes_after, memory_object(usage.memory));
    return words_.attr("Trace")(
        text_object(trace.prompt),
        array_of(trace.prompt_ids.data(), {trace.prompt_ids.size()}, owner_), looks, used,
        trace.confidence, times_dict(trace.times), trace.weights_bytes, trace.kv_bytes,
        trace.peak_bytes);
  }

  nb::object look(Look& look) const {
    nb::list saccades;
    for (Saccade& saccade : look.saccades) saccades.append(this->saccade(saccade));
    nb::object attention = nb::none();
    if (!look.attention.empty())
      attention = array_of(look.attention.data(), {look.attention.size()}, owner_);
    return words_.attr("Look")(*fields_of(look), look.glance_tokens, look.encoded_tokens, look.look,
                               saccades, attention);
  }

  nb::object saccade(Saccade& saccade) const {
    static_assert(sizeof(Area) == 4 * sizeof(int));  // x, y, width, height
    int* const crops = saccade.crops.empty() ? nullptr : &saccade.crops[0].x_px;
    return words_.attr("Saccade")(saccade.begin, saccade.end, map_array(saccade.coupling, owner_),
                                  map_array(saccade.relevance, owner_),
                                  points_array(saccade.fixations, owner_),
                                  array_of(crops, {saccade.crops.size(), 4}, owner_),
                                  saccade.look_ms, saccade.read_ms, saccade.confidence);
  }

  nb::tuple fields_of(Sight& sight) const {
    return nb::make_tuple(size_tuple(sight.image), size_tuple(sight.canvas),
                          plan_object(words_, sight.plan, sight.canvas, owner_), sight.tokens_full,
                          sight.patch_bytes, points_array(sight.fixations, owner_),
                          map_array(sight.information, owner_), map_array(sight.salience, owner_),
                          map_array(sight.coupling, owner_), map_array(sight.relevance, owner_),
                          times_dict(sight.times), image_array(sight.picture, owner_));
  }

  nb::object words_;
  nb::capsule owner_;
};

nb::object logits_array(std::vector<float> logits, size_t tokens) {
  if (logits.empty() || tokens == 0) return nb::none();
  const auto kept = std::make_shared<std::vector<float>>(std::move(logits));
  return array_of(kept->data(), {tokens, kept->size() / tokens}, keeper(kept));
}

// What on_logits saw: one row for each token of every answer.
size_t rows_of(const Answer& answer) {
  size_t rows = answer.tokens.size();
  for (const Answer& other : answer.others) rows += other.tokens.size();
  return rows;
}

}  // namespace

nb::object plan_object(nb::handle words, Plan& plan, Size canvas, nb::handle owner) {
  return words.attr("Plan")(cells_array(plan.cells, owner), plan.maker, plan.budget_tokens,
                            size_tuple(canvas));
}

nb::object memory_object(const MemoryUsage& memory) {
  return nb::module_::import_("fovea.words")
      .attr("Memory")(memory.capacity, memory.resident, memory.shared, memory.cached,
                      memory.reserved, memory.free, memory.largest_free_run, memory.mapped,
                      memory.hits, memory.evictions);
}

nb::object answer_object(const std::shared_ptr<Answer>& answer, std::vector<float> logits) {
  const size_t rows = rows_of(*answer);
  return Maker(keeper(answer)).answer(*answer, logits_array(std::move(logits), rows));
}

nb::object sight_object(const std::shared_ptr<Sight>& sight) {
  return Maker(keeper(sight)).sight(*sight);
}

}  // namespace fovea::python
