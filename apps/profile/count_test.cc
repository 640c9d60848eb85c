// SPDX-License-Identifier: Apache-2.0
#include "profile/count.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "places.h"
#include "profile/request.h"

namespace fovea::app {
namespace {

ModelConfig config_of(const std::string& path) {
  std::ifstream file(source_dir() + "/" + path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto config = parse_config(text);
  EXPECT_TRUE(config) << path;
  return *config;
}
ModelConfig qwen3_vl_2b() { return config_of("tests/fixtures/config/published_2b.json"); }
ModelConfig tiny() { return config_of("models/tiny/config.json"); }

const Storage kOnGpu = storage_on(true, WeightFormat::kBf16);
const Storage kOnCpu = storage_on(false, WeightFormat::kBf16);

const Work& at(const PerStage<Work>& stages, Stage stage) {
  return stages[static_cast<size_t>(stage)];
}

TEST(Count, ATokenOfQwen3Vl2BReadsItsWeights) {
  const TextConfig text = qwen3_vl_2b().text;
  const Work work = count_decoder(
      text, kOnGpu, {.tokens = 1, .kept = 0, .layers = text.num_layers, .logits = true});
  // 28 layers of 2048 x (2048 + 2 x 1024) + 2048 x 2048 + 3 x 2048 x 6144, and 151,936 x 2048.
  constexpr int64_t kWeights = 2 * (28 * int64_t{50'331'648} + 311'164'928);
  EXPECT_EQ(kWeights, 3'440'902'144);
  const int64_t keys = 28 * 2 * 1024 * 2;
  const int64_t between = 28 * (16 * 2048 + 2 * (2 * 2048 + 3 * 2048 + 2 * 1024 + 6144));
  const int64_t ends = 2048 * 2 + 2048 * 4;  // a row of the embedding, the input of the head
  EXPECT_EQ(work.read_bytes, kWeights + keys + between + ends);
  EXPECT_EQ(work.flop, kWeights + 28 * 4 * 2048);  // two for each bf16 weight, and one key
  EXPECT_LT(work.written_bytes, 3'000'000);
}

TEST(Count, TheTowerOfQwen3Vl2BAt4096Patches) {
  const Work work = count_tower(qwen3_vl_2b().vision, kOnGpu, {.patches = 4096});
  const int64_t blocks = 24 * 2 * int64_t{4096} * (4 * 1024 * 1024 + 2 * 1024 * 4096);
  const int64_t attention = 24 * 4 * int64_t{1024} * 4096 * 4096;
  const int64_t embed = 2 * int64_t{4096} * 768 * 1024;  // one frame
  const int64_t mergers = 4 * 2 * int64_t{1024} * (4096 * 4096 + 4096 * 2048);
  EXPECT_EQ(work.flop, blocks + attention + embed + mergers);
  EXPECT_NEAR(static_cast<double>(blocks + attention), 4.1e12, 0.05e12);
}

TEST(Count, ALookReadsTheKeysOfTheGlanceToo) {
  const VisionConfig vision = tiny().vision;
  const Work alone = count_tower(vision, kOnCpu, {.patches = 32});
  const Work behind = count_tower(vision, kOnCpu, {.patches = 32, .kept = 64});
  EXPECT_EQ(behind.read_bytes - alone.read_bytes, 5 * 2 * 64 * 256 * 4);
  EXPECT_EQ(behind.written_bytes, alone.written_bytes);
  EXPECT_EQ(behind.flop - alone.flop, 5 * 4 * 256 * 32 * 64);
}

TEST(Count, SomeLayersOfTheTinyDecoder) {
  const Work work =
      count_decoder(tiny().text, kOnCpu, {.tokens = 10, .kept = 5, .layers = 3, .logits = false});
  const int64_t weights = 2 * int64_t{256} * (256 + 128) + 3 * 256 * 640;
  const int64_t between = 4 * (2 * 256 + 3 * 256 + 2 * 128 + 640);
  EXPECT_EQ(work.read_bytes,
            3 * (2 * weights + 2 * 15 * 128 * 4 + 10 * (16 * 256 + between)) + 10 * 256 * 2);
  EXPECT_EQ(work.written_bytes, 3 * (2 * 10 * 128 * 4 + 10 * (8 * 256 + between)) + 10 * 256 * 4);
  EXPECT_EQ(work.flop, 3 * (2 * 10 * weights + 4 * 256 * (10 * 5 + 55)));
}

TEST(Count, WeightsAreReadOnceForEachChunk) {
  const TextConfig text = tiny().text;
  Storage whole = kOnCpu;
  whole.chunk_tokens = 600;
  const DecoderPass pass{.tokens = 600, .kept = 0, .layers = 1, .logits = false};
  const int64_t weights = 2 * (2 * int64_t{256} * (256 + 128) + 3 * 256 * 640);
  EXPECT_EQ(count_decoder(text, kOnCpu, pass).read_bytes,
            count_decoder(text, whole, pass).read_bytes + weights + 2 * 512 * 128 * 4);
}

TEST(Count, ThePictureByItsSizes) {
  RequestShape request;
  request.file_bytes = 1000;
  request.image = {1000, 1000};
  request.canvas = {1024, 1024};
  request.cells = 68;
  const auto stages = count_request(tiny(), kOnGpu, request);
  EXPECT_EQ(at(stages, Stage::kDecode).written_bytes, 3'000'000);
  EXPECT_EQ(at(stages, Stage::kCanvas).bytes(), 3'000'000 + 3 * 1024 * 1024);
  EXPECT_EQ(at(stages, Stage::kUpload).upload_bytes, 3 * 1024 * 1024);
  EXPECT_EQ(at(stages, Stage::kPyramid).read_bytes, 3 * 1024 * 1024);
  EXPECT_EQ(at(stages, Stage::kPyramid).written_bytes,
            3 * (512 * 512 + 256 * 256 + 128 * 128 + 64 * 64 + 32 * 32));
  EXPECT_EQ(at(stages, Stage::kPatches).read_bytes, 68 * 3 * 32 * 32);
  EXPECT_EQ(at(stages, Stage::kPatches).written_bytes, 68 * 4 * 768 * 2);
  const auto on_cpu = count_request(tiny(), kOnCpu, request);
  EXPECT_EQ(at(on_cpu, Stage::kUpload).bytes(), 0);
  EXPECT_EQ(at(on_cpu, Stage::kPatches).written_bytes, 68 * 4 * 1536 * 4);

  const RequestShape dense = dense_of(request, {1024, 1024}, tiny());
  const auto all = count_request(tiny(), kOnGpu, dense);
  EXPECT_EQ(at(all, Stage::kPyramid).bytes() + at(all, Stage::kRelevance).bytes(), 0);
  EXPECT_EQ(at(all, Stage::kPatches).written_bytes, 1024 * 4 * 768 * 2);
  EXPECT_EQ(dense.tower.front().patches, 4096);
}

TEST(Count, TheLimitIsTheLongestOfMemoryUploadAndArithmetic) {
  const DeviceCeilings ceilings{.copy_bytes_per_ms = 2,
                                .read_bytes_per_ms = 3,
                                .upload_bytes_per_ms = 1,
                                .product_flop_per_ms = 10};
  EXPECT_DOUBLE_EQ(limit_ms({.read_bytes = 10, .written_bytes = 4}, ceilings), 8 / 2.0 + 6 / 3.0);
  EXPECT_DOUBLE_EQ(limit_ms({.read_bytes = 4, .written_bytes = 10}, ceilings), 14 / 2.0);
  EXPECT_DOUBLE_EQ(limit_ms({.read_bytes = 10, .flop = 100}, ceilings), 10);
  EXPECT_DOUBLE_EQ(limit_ms({.upload_bytes = 20, .flop = 100}, ceilings), 20);
  EXPECT_DOUBLE_EQ(limit_ms({}, ceilings), 0);
}

// An answer whose prompt has 3 tokens, the image, and 7 more.
Answer answered(const ModelConfig& config, const std::string& maker, int cells) {
  Answer answer;
  Look look;
  look.image = look.canvas = {512, 512};
  look.plan.maker = maker;
  look.plan.cells.resize(static_cast<size_t>(cells));
  answer.trace.looks.push_back(look);
  answer.trace.prompt_ids = {1, 2, 3, config.image_token_id, 4, 5, 6, 7, 8, 9, 10};
  answer.trace.usage.answer_tokens = 5;
  return answer;
}

void expect_pass(const DecoderPass& pass, int64_t tokens, int64_t kept, int layers, bool logits) {
  EXPECT_EQ(pass.tokens, tokens);
  EXPECT_EQ(pass.kept, kept);
  EXPECT_EQ(pass.layers, layers);
  EXPECT_EQ(pass.logits, logits);
}

TEST(Shape, OfAPlanInOnePiece) {
  const ModelConfig config = tiny();
  const RequestShape request = shape_of(answered(config, "uniform", 256), config, 9);
  ASSERT_EQ(request.tower.size(), 1u);
  EXPECT_EQ(request.tower[0].patches, 1024);
  EXPECT_TRUE(request.read.empty());
  ASSERT_EQ(request.prefill.size(), 1u);
  expect_pass(request.prefill[0], 266, 0, 6, true);
  EXPECT_EQ(request.prompt_tokens, 266);
  EXPECT_EQ(request.answer_tokens, 5);
}

TEST(Shape, OfALookThatTheModelChose) {
  const ModelConfig config = tiny();
  Answer answer = answered(config, "glance+look", 24);
  answer.trace.looks[0].glance_tokens = 16;
  Saccade saccade;
  saccade.begin = 16;
  saccade.end = 24;
  answer.trace.looks[0].saccades.push_back(saccade);
  answer.trace.times.push_back({"read", 1});
  const RequestShape request = shape_of(answer, config, 9);
  ASSERT_EQ(request.tower.size(), 2u);
  EXPECT_EQ(request.tower[0].patches, 64);
  EXPECT_EQ(request.tower[1].patches, 32);
  EXPECT_EQ(request.tower[1].kept, 64);
  ASSERT_EQ(request.read.size(), 2u);
  expect_pass(request.read[0], 19, 0, 6, false);
  expect_pass(request.read[1], 7, 19, 3, false);  // to the layer of the gaze head
  ASSERT_EQ(request.prefill.size(), 1u);
  expect_pass(request.prefill[0], 15, 19, 6, true);
  EXPECT_EQ(request.prompt_tokens, 34);
}

TEST(Shape, OfCrops) {
  const ModelConfig config = tiny();
  Answer answer = answered(config, "glance+look", 19);
  answer.trace.looks[0].glance_tokens = 16;
  Saccade saccade;
  saccade.begin = 16;
  saccade.end = 19;
  saccade.crops = {{0, 0, {64, 32}}, {128, 128, {32, 32}}};
  answer.trace.looks[0].saccades.push_back(saccade);
  const int image = config.image_token_id;
  answer.trace.prompt_ids = {1, 2, 3, image, 4, 3, image, 4, 3, image, 4, 5};
  const RequestShape request = shape_of(answer, config, 9);
  ASSERT_EQ(request.tower.size(), 3u);
  EXPECT_EQ(request.tower[1].patches, 8);
  EXPECT_EQ(request.tower[2].patches, 4);
  EXPECT_EQ(request.tower[2].kept, 0);
  ASSERT_EQ(request.prefill.size(), 1u);
  expect_pass(request.prefill[0], 3 + 16 + 3 + 4 + 2, 0, 6, true);
}

}  // namespace
}  // namespace fovea::app
