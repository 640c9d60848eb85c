// SPDX-License-Identifier: Apache-2.0
#include "weights/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <fstream>

#include "weights/model_tensors.h"
#include "weights/tensor_source.h"
#include "weights/test_files.h"

namespace fovea {
namespace {

using test::contains;
using test::Folder;

// A tiny model with one large tensor: an embedding of 40 rows would be a single piece.
class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    std::string text = test::tiny_config();
    text.replace(text.find("\"vocab_size\":40"), 15, "\"vocab_size\":70001");
    folder_.write("config.json", text);
    config_ = *parse_config(text);
    tensors_ = test::tiny_tensors(config_, DType::kBf16);
    write();
  }
  void write() { folder_.write("model.safetensors", test::safetensors_bytes(tensors_)); }
  test::TestTensor& embedding() {
    for (test::TestTensor& tensor : tensors_)
      if (tensor.name.ends_with("embed_tokens.weight")) return tensor;
    return tensors_.front();
  }

  Folder folder_;
  ModelConfig config_;
  std::vector<test::TestTensor> tensors_;
};

TEST_F(LoaderTest, EveryRowIsPackedOnceInPiecesThatThreadsDoNotChange) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const TensorView tensor = checkpoint->text("embed_tokens.weight");
  for (const int64_t multiple : {1, 48, 100'000}) {
    std::vector<int64_t> borders[2];
    for (const int count : {1, 3}) {
      Threads threads(count);
      Loader loader(threads, *checkpoint);
      std::vector<std::atomic<int>> visits(70'001);
      std::vector<int> begins(70'001, 0);
      const Status status =
          loader.take(tensor,
                      [&](int64_t begin, int64_t end) {
                        begins[static_cast<size_t>(begin)] = 1;
                        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
                        EXPECT_TRUE(end == 70'001 || (end - begin) % multiple == 0);
                      },
                      {.rows_multiple = multiple, .drop_source = count == 1});
      ASSERT_TRUE(status) << status.error().message;
      for (const auto& visit : visits) ASSERT_EQ(visit, 1);
      for (size_t i = 0; i < begins.size(); ++i)
        if (begins[i] != 0) borders[count == 1 ? 0 : 1].push_back(static_cast<int64_t>(i));
    }
    EXPECT_EQ(borders[0], borders[1]);
    EXPECT_EQ(borders[0].size() > 1, multiple < 70'001);
  }
  EXPECT_EQ(std::memcmp(tensor.data, embedding().data.data(), tensor.bytes), 0)
      << "dropped pages come back as they were";
}

TEST_F(LoaderTest, ProgressEndsAtAllBytesOfTheModel) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint);
  Threads threads(2);
  int64_t last = 0;
  Loader loader(threads, *checkpoint, [&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, checkpoint->source_bytes());
    last = done;
  });
  for (const auto& tensor : vision_tensors(config_.vision))
    ASSERT_TRUE(loader.take(checkpoint->vision(tensor.name), nullptr));
  for (const auto& tensor : text_tensors(config_.text))
    ASSERT_TRUE(loader.take(checkpoint->text(tensor.name), nullptr));
  EXPECT_EQ(last, checkpoint->source_bytes());
  EXPECT_EQ(loader.done_bytes(), checkpoint->source_bytes());
}

TEST_F(LoaderTest, SourcesGiveEveryTensorOfTheirPartInTheFormatAskedFor) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint);
  Threads threads(2);
  EXPECT_EQ(stored_format(*checkpoint), WeightFormat::kBf16);
  for (const auto format :
       {std::optional<WeightFormat>(), std::optional(WeightFormat::kF32),
        std::optional(WeightFormat::kBf16), std::optional(WeightFormat::kInt8)}) {
    Loader loader(threads, *checkpoint);
    const TensorSource text = text_source(*checkpoint, loader, format);
    const auto matrix = text.matrix("layers.1.mlp.down_proj.weight");
    ASSERT_TRUE(matrix) << matrix.error().message;
    EXPECT_EQ(matrix->format(), format.value_or(WeightFormat::kBf16));
    EXPECT_EQ(matrix->rows(), 16);
    EXPECT_EQ(matrix->cols(), 24);
    const TensorView tensor = checkpoint->text("layers.1.mlp.down_proj.weight");
    std::vector<float> row(24);
    matrix->row(3, row.data());
    for (size_t c = 0; c < row.size(); ++c) {
      const uint16_t bits = static_cast<const uint16_t*>(tensor.data)[3 * 24 + c];
      const auto expected = std::bit_cast<float>(uint32_t{bits} << 16);
      // Half a step of 1/127 of the largest value, which is below 0.05, for int8; else exact.
      EXPECT_NEAR(row[c], expected, format == WeightFormat::kInt8 ? 0.05 / 254 : 0.0);
    }
  }
  Loader loader(threads, *checkpoint);
  const TensorSource vision = vision_source(*checkpoint, loader, std::nullopt);
  const auto patches = vision.matrix("patch_embed.proj.weight");
  ASSERT_TRUE(patches);
  EXPECT_EQ(patches->cols(), 1536) << "all but the first dimension";
  EXPECT_EQ(patches->values(), checkpoint->vision("patch_embed.proj.weight").data) << "not copied";
  const auto table = vision.values("pos_embed.weight");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->size(), 9u * 8);
  EXPECT_GT(loader.done_bytes(), 0);
}

TEST_F(LoaderTest, TheFirstNanIsNamedForAnyNumberOfThreads) {
  for (const size_t at : {1'120'015u, 600'000u, 3u}) {  // each earlier than the one before
    embedding().data[2 * at + 1] = 0x7F;
    embedding().data[2 * at] = static_cast<char>(0x81);
    write();
    const auto checkpoint = Checkpoint::open(folder_.path());
    ASSERT_TRUE(checkpoint) << "opening looks at no values";
    for (const int count : {1, 4}) {
      Threads threads(count);
      Loader loader(threads, *checkpoint);
      ASSERT_TRUE(loader.take(checkpoint->text("norm.weight"), nullptr));
      const Status status = loader.take(checkpoint->text("embed_tokens.weight"), nullptr);
      ASSERT_FALSE(status);
      EXPECT_TRUE(contains(status.error().message,
                           "tensor \"model.language_model.embed_tokens.weight\" holds NaN at [" +
                               std::to_string(at / 16) + ", " + std::to_string(at % 16) + "]"))
          << status.error().message;
    }
  }
}

TEST_F(LoaderTest, ValuesThatAreCheckedLaterAreNamedToo) {
  const auto all_values = [&](const std::atomic<bool>& stop) {
    const auto checkpoint = Checkpoint::open(folder_.path());
    const std::vector<TensorView> tensors = {checkpoint->text("norm.weight"),
                                             checkpoint->text("embed_tokens.weight")};
    return check_values(*checkpoint, tensors, stop);
  };
  EXPECT_TRUE(all_values(false));
  embedding().data[2 * 1'000'001 + 1] = 0x7F;  // beyond the first piece
  embedding().data[2 * 1'000'001] = static_cast<char>(0x80);
  write();
  const Status status = all_values(false);
  ASSERT_FALSE(status);
  EXPECT_TRUE(contains(status.error().message,
                       "embed_tokens.weight\" holds an infinite value at [62500, 1]"))
      << status.error().message;
  EXPECT_TRUE(all_values(true)) << "stopped before it was found";
}

TEST_F(LoaderTest, WhatIsUsedInPlaceIsCheckedAtOnceInASmallCheckpoint) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint);
  Threads threads(2);
  Loader loader(threads, *checkpoint);
  ASSERT_TRUE(loader.take_in_place(checkpoint->text("embed_tokens.weight")));
  EXPECT_EQ(loader.in_place().size(), 1u);
  EXPECT_TRUE(loader.check_later().empty());
  EXPECT_GT(loader.done_bytes(), 0);
}

TEST_F(LoaderTest, AFileThatShrinksWhileItIsPackedIsAnError) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint);
  Threads threads(2);
  Loader loader(threads, *checkpoint);
  const TensorView tensor = checkpoint->text("embed_tokens.weight");
  std::atomic<bool> cut = false;
  std::atomic<int64_t> sum = 0;
  const Status status = loader.take(tensor, [&](int64_t begin, int64_t end) {
    if (!cut.exchange(true)) test::fs::resize_file(folder_.path("model.safetensors"), 5'000);
    for (int64_t i = begin * 16; i < end * 16; ++i)
      sum += static_cast<const uint16_t*>(tensor.data)[i];
  });
  ASSERT_FALSE(status);
  EXPECT_TRUE(contains(status.error().message, "is 5,000 now")) << status.error().message;
  EXPECT_FALSE(loader.take(checkpoint->text("norm.weight"), nullptr)) << "and stays one";
}

}  // namespace
}  // namespace fovea
