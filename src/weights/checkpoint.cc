// SPDX-License-Identifier: Apache-2.0
#include "weights/checkpoint.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/check.h"
#include "base/text.h"
#include "weights/checked_tensor.h"
#include "weights/model_tensors.h"

namespace fovea {
namespace {

// Where the parts lie: as published and as transformers saves them; as transformers saves the model
// without its head; and in the forms of earlier Qwen and of LLaVA-like checkpoints.
constexpr std::array kVisionPrefixes = {"model.visual.", "visual."};
constexpr std::array kTextPrefixes = {"model.language_model.", "language_model.", "model.",
                                      "language_model.model."};
constexpr std::array kHeadNames = {"lm_head.weight", "language_model.lm_head.weight"};
constexpr const char* kEmbedding = "embed_tokens.weight";

// The first prefix under which `probe` is there; the published one where none is.
template <size_t N>
std::string find_prefix(const TensorSet& tensors, const std::array<const char*, N>& prefixes,
                        const char* probe) {
  for (const char* prefix : prefixes)
    if (tensors.find(std::string(prefix) + probe)) return prefix;
  return prefixes[0];
}

Result<TensorView> find_checked(const TensorSet& tensors, const std::string& name,
                                const Shape& shape) {
  return checked_tensor(tensors.find(name), name, shape);
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  const Result<ModelFolder> folder = ModelFolder::open(path);
  if (!folder) return folder.error();
  const auto in_folder = [&](const Error& error) {
    return Error{error.kind, fmt::format("cannot load {}: {}", in_quotes(path), error.message)};
  };
  Result<ModelConfig> config = read_config(*folder);
  if (!config) return in_folder(config.error());
  const Result<ProcessorConfig> processor = read_processor_config(*folder);
  if (!processor) return in_folder(processor.error());
  Result<TensorSet> tensors = TensorSet::open(*folder);
  if (!tensors) return in_folder(tensors.error());
  Checkpoint checkpoint(*std::move(config), *processor, *std::move(tensors));
  if (Status status = checkpoint.find_tensors(); !status) return in_folder(status.error());
  if (Status status = checkpoint.intact(); !status) return status.error();
  return checkpoint;
}

Status Checkpoint::find_tensors() {
  const std::string vision = find_prefix(tensors_, kVisionPrefixes, "patch_embed.proj.weight");
  const std::string text = find_prefix(tensors_, kTextPrefixes, "norm.weight");
  for (const ExpectedTensor& tensor : vision_tensors(config_.vision)) {
    const Result<TensorView> found = find_checked(tensors_, vision + tensor.name, tensor.shape);
    if (!found) return found.error();
    vision_.emplace(tensor.name, *found);
  }
  if (Status status = find_embedding_and_head(text + kEmbedding); !status) return status;
  for (const ExpectedTensor& tensor : text_tensors(config_.text)) {
    if (tensor.name == kEmbedding) continue;
    const Result<TensorView> found = find_checked(tensors_, text + tensor.name, tensor.shape);
    if (!found) return found.error();
    text_.emplace(tensor.name, *found);
  }
  if (Status status = find_extra(); !status) return status;
  for (const Part* part : {&vision_, &text_, &extra_})
    for (const auto& [name, tensor] : *part) source_bytes_ += static_cast<int64_t>(tensor.bytes);
  if (!head_is_tied()) source_bytes_ += static_cast<int64_t>(head_.bytes);
  return Done{};
}

Status Checkpoint::find_extra() {
  const std::vector<ExpectedTensor> expected = extra_tensors(config_);
  if (expected.empty() && tensors_.has_extra_file())
    return bad_input(
        "there is a fovea.safetensors, but config.json has no \"fovea\" with levels or gaze_size "
        "that say what is in it");
  if (!expected.empty() && !tensors_.has_extra_file())
    return bad_input(fmt::format(
        "config.json has settings under \"fovea\", but there is no fovea.safetensors with "
        "{} of {}",
        in_quotes(expected.front().name), expected.front().shape.text()));
  for (const ExpectedTensor& tensor : expected) {
    const Result<TensorView> found =
        checked_tensor(tensors_.find_extra(tensor.name), tensor.name, tensor.shape);
    if (!found) return bad_input("fovea.safetensors: " + found.error().message);
    extra_.emplace(tensor.name, *found);
  }
  return Done{};
}

// transformers' rule: a tied model may be stored with either of the two; where both are there and
// differ, they are not tied, whatever config.json says.
Status Checkpoint::find_embedding_and_head(const std::string& embedding_name) {
  const Shape shape = head_tensor(config_.text).shape;
  const std::string head_name =
      tensors_.find(kHeadNames[0]) || !tensors_.find(kHeadNames[1]) ? kHeadNames[0] : kHeadNames[1];
  const bool tied = config_.tie_word_embeddings;
  const bool has_head = tensors_.find(head_name).has_value();
  const bool has_embedding = tensors_.find(embedding_name).has_value();
  const Result<TensorView> embedding = find_checked(
      tensors_, tied && has_head && !has_embedding ? head_name : embedding_name, shape);
  if (!embedding) return embedding.error();
  text_.emplace(kEmbedding, *embedding);
  head_ = *embedding;
  if (tied && !(has_head && has_embedding)) return Done{};
  const Result<TensorView> head = find_checked(tensors_, head_name, shape);
  if (!head) return head.error();
  const bool same = tied && head->dtype == embedding->dtype &&
                    std::memcmp(head->data, embedding->data, head->bytes) == 0;
  if (!same) head_ = *head;
  return Done{};
}

TensorView Checkpoint::vision(std::string_view name) const {
  const auto found = vision_.find(name);
  FOVEA_CHECK(found != vision_.end());
  return found->second;
}

TensorView Checkpoint::text(std::string_view name) const {
  const auto found = text_.find(name);
  FOVEA_CHECK(found != text_.end());
  return found->second;
}

TensorView Checkpoint::extra(std::string_view name) const {
  const auto found = extra_.find(name);
  FOVEA_CHECK(found != extra_.end());
  return found->second;
}

}  // namespace fovea
