// SPDX-License-Identifier: Apache-2.0
// Any text as config.json, generation_config.json and preprocessor_config.json.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "weights/config.h"
#include "weights/model_tensors.h"

namespace {

bool one_short_line(const fovea::Error& error) {
  return error.message.size() < 1000 && error.message.find('\n') == std::string::npos;
}

constexpr std::string_view kGoodConfig = R"({"model_type":"qwen3_vl","image_token_id":1,
"text_config":{"hidden_size":16,"intermediate_size":24,"num_hidden_layers":2,"num_attention_heads":4,
"num_key_value_heads":2,"vocab_size":40},"vision_config":{"depth":2,"hidden_size":8,
"intermediate_size":12,"num_heads":2,"out_hidden_size":16,"num_position_embeddings":9}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto config = fovea::parse_config(text)) {
    const int64_t parameters = fovea::parameter_count(*config);
    FOVEA_CHECK(parameters > 0 && parameters < (int64_t{1} << 62));
    FOVEA_CHECK(config->vision.head_dim * config->vision.num_heads == config->vision.hidden_size);
    FOVEA_CHECK(config->text.num_heads % config->text.num_kv_heads == 0);
    const int64_t side = config->vision.position_grid_side;
    FOVEA_CHECK(side >= 1 && side * side <= config->vision.num_position_embeddings);
  } else {
    FOVEA_CHECK(one_short_line(config.error()));
  }
  if (const auto config = fovea::parse_config(kGoodConfig, text); !config)
    FOVEA_CHECK(one_short_line(config.error()));
  if (const auto processor = fovea::parse_processor_config("preprocessor_config.json", text)) {
    FOVEA_CHECK(processor->min_pixels >= 1 && processor->min_pixels <= processor->max_pixels);
  } else {
    FOVEA_CHECK(one_short_line(processor.error()));
  }
  return 0;
}
