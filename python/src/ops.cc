// SPDX-License-Identifier: Apache-2.0
// Single operations on arrays, for ../fovea/ops.py, which makes torch operators of them.
#include "fovea/ops.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "engine/given_plan.h"
#include "errors.h"
#include "fovea/fovea.h"
#include "lock.h"
#include "module.h"
#include "ops/attention/sparse/random_features.h"
#include "pictures.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

using Rows = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using RowsOut = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const int32_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;
using Spans = nb::ndarray<const int64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Rows that are given as [n][members], as a span of structs of these members.
template <class Struct, class Array>
std::span<const Struct> structs_of(const Array& array) {
  static_assert(sizeof(Struct) % sizeof(*array.data()) == 0);
  return {reinterpret_cast<const Struct*>(array.data()), array.shape(0)};
}

// The checks of attend() alone, of rows [rows, heads, head_dim] that lie anywhere.
void check_rows(int64_t rows, int heads, int kv_heads, const std::string& kind, bool causal,
                double share, double scale, const Places& places, const Spans& images,
                const Values& level_bias, const Values& sum_weights) {
  const AttentionOptions options{.kind = kind,
                                 .causal = causal,
                                 .share = share,
                                 .scale = static_cast<float>(scale),
                                 .places = structs_of<RowInGrid>(places),
                                 .images = structs_of<RowSpan>(images),
                                 .level_bias = {level_bias.data(), level_bias.shape(0)},
                                 .sum_weights = {sum_weights.data(), sum_weights.shape(0)}};
  const auto checked =
      check_attention({.rows = rows, .heads = heads, .kv_heads = kv_heads}, options);
  if (!checked) raise(checked.error());
}

void attend_rows(const Rows& q, const Rows& k, const Rows& v, const RowsOut& out,
                 const std::string& kind, bool causal, double share, double scale,
                 const Places& places, const Spans& images, const Values& level_bias,
                 const Values& sum_weights, int threads) {
  const bool same_keys = k.shape(0) == v.shape(0) && k.shape(1) == v.shape(1) &&
                         k.shape(2) == v.shape(2) && k.shape(0) == q.shape(0) &&
                         k.shape(2) == q.shape(2);
  const bool same_out =
      out.shape(0) == q.shape(0) && out.shape(1) == q.shape(1) && out.shape(2) == q.shape(2);
  if (!same_keys || !same_out)
    raise(
        bad_input("attention: give q [rows, heads, values] and k and v [rows, "
                  "heads of keys, values] of the same rows and values"));
  const AttentionRows rows{.q = q.data(),
                           .k = k.data(),
                           .v = v.data(),
                           .out = out.data(),
                           .rows = static_cast<int64_t>(q.shape(0)),
                           .heads = static_cast<int>(q.shape(1)),
                           .kv_heads = static_cast<int>(k.shape(1)),
                           .head_dim = static_cast<int>(q.shape(2))};
  AttentionOptions options{.kind = kind,
                           .causal = causal,
                           .share = share,
                           .scale = static_cast<float>(scale),
                           .places = structs_of<RowInGrid>(places),
                           .images = structs_of<RowSpan>(images),
                           .level_bias = {level_bias.data(), level_bias.shape(0)},
                           .sum_weights = {sum_weights.data(), sum_weights.shape(0)},
                           .threads = threads};
  std::optional<Status> done;
  {
    const Released released;
    done.emplace(attend(rows, options));
  }
  if (!*done) raise(done->error());
}

// [level 0 [height, width, 3], level 1, ...]
nb::list pyramid_of(nb::handle picture, int levels, int threads) {
  Picture source = picture_of(picture);
  std::optional<Result<std::vector<Image>>> made;
  {
    const Released released;
    auto image = load(std::move(source), 0);
    if (image)
      made.emplace(levels_of(*std::move(image), levels, threads));
    else
      made.emplace(image.error());
  }
  const auto kept = std::make_shared<std::vector<Image>>(value_or_raise(*std::move(made)));
  const nb::capsule owner = keeper(kept);
  nb::list list;
  for (Image& image : *kept) list.append(image_array(image, owner));
  return list;
}

// Cells as a plan of a canvas has them: coarse first; an error where they are not on it.
nb::object cells_on_canvas(const Places& cells, int width, int height) {
  Plan plan;
  const auto given = structs_of<Cell>(cells);
  plan.cells.assign(given.begin(), given.end());
  const auto kept =
      std::make_shared<Plan>(value_or_raise(settle_plan(std::move(plan), {width, height}, -1)));
  return cells_array(kept->cells, keeper(kept));
}

// The names of the kinds of attention of the tower, or of the language model.
std::vector<std::string> kind_names(bool causal) {
  std::vector<std::string> names;
  for (const AttentionChoice& choice : attention_choices())
    if (causal ? choice.of_text : choice.of_tower) names.push_back(choice.name);
  return names;
}

// What "performer" projects rows on: [features, head_dim].
nb::object directions_of(int head_dim) {
  if (head_dim < 1) raise(bad_input("random features of rows without values: give one or more"));
  const auto kept =
      std::make_shared<std::vector<float>>(random_directions(kRandomFeatures, head_dim));
  return array_of(kept->data(), {kRandomFeatures, static_cast<size_t>(head_dim)}, keeper(kept));
}

}  // namespace

void add_ops(nb::module_& module) {
  module.def("attend", &attend_rows, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"),
             nb::arg("kind"), nb::arg("causal"), nb::arg("share"), nb::arg("scale"),
             nb::arg("places"), nb::arg("images"), nb::arg("level_bias"), nb::arg("sum_weights"),
             nb::arg("threads"));
  module.def("check_attention", &check_rows, nb::arg("rows"), nb::arg("heads"), nb::arg("kv_heads"),
             nb::arg("kind"), nb::arg("causal"), nb::arg("share"), nb::arg("scale"),
             nb::arg("places"), nb::arg("images"), nb::arg("level_bias"), nb::arg("sum_weights"));
  module.def("pyramid", &pyramid_of, nb::arg("picture"), nb::arg("levels"), nb::arg("threads"));
  module.def("cells_on_canvas", &cells_on_canvas, nb::arg("cells"), nb::arg("width"),
             nb::arg("height"));
  module.def("attention_kinds", &kind_names, nb::arg("causal"));
  module.def("random_directions", &directions_of, nb::arg("head_dim"));
}

}  // namespace fovea::python
