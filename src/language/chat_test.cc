// SPDX-License-Identifier: Apache-2.0
#include "language/chat.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "places.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path kRoot = source_dir();

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

std::string model_template(const char* file, const char* name) {
  const Json golden = read_json(kRoot / "tests/fixtures/chat" / file);
  for (const Json& model : golden["models"])
    if (model["name"] == name) return model["template"].get<std::string>();
  ADD_FAILURE() << "no template " << name;
  return "";
}

// Two images among text, after a system turn and an answered question.
const std::vector<ChatTurn> kTurns = {
    {"system", {text_part("Be brief.")}},
    user_turn({text_part("Hello")}),
    {"assistant", {text_part("Hi!")}},
    user_turn({image_part(), text_part("left, "), image_part(), text_part("right?")})};

const std::string kImage = "<|vision_start|><|image_pad|><|vision_end|>";
const std::string kExpected =
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
    "<|im_start|>assistant\nHi!<|im_end|>\n<|im_start|>user\n" +
    kImage + "left, " + kImage + "right?<|im_end|>\n<|im_start|>assistant\n";

// A checkpoint folder of this test's own.
class ChatFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("fovea-chat-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  std::string loaded_text() const {
    const auto format = ChatFormat::load(folder_.string());
    if (!format) return "error: " + format.error().message;
    const auto text = format->render(kTurns);
    return text ? *text : "error: " + text.error().message;
  }
  fs::path folder_;
};

TEST(Chat, WritesQwensKnownForm) {
  EXPECT_EQ(*ChatFormat::qwen().render(kTurns), kExpected);
  EXPECT_EQ(*ChatFormat::qwen().render(kTurns, {.add_generation_prompt = false}),
            kExpected.substr(0, kExpected.size() - 22));
}

TEST(Chat, GivesImagesToATemplateThatKnowsThem) {
  for (const char* name : {"qwen_vl", "qwen3_vl"}) {
    const auto format = ChatFormat::from_template(model_template("models.json", name));
    ASSERT_TRUE(format) << format.error().message;
    EXPECT_TRUE(format->template_knows_images()) << name;
    EXPECT_EQ(*format->render(kTurns), kExpected) << name;
  }
}

TEST(Chat, WritesImagesIntoTheTextForATemplateThatIgnoresThem) {
  const auto qwen3 = ChatFormat::from_template(model_template("qwen3.json", "qwen3"));
  ASSERT_TRUE(qwen3) << qwen3.error().message;
  EXPECT_FALSE(qwen3->template_knows_images());
  EXPECT_EQ(*qwen3->render(kTurns), kExpected);
  // It has a setting of its own.
  EXPECT_EQ(*qwen3->render(kTurns, {.add_generation_prompt = true, .enable_thinking = false}),
            kExpected + "<think>\n\n</think>\n\n");

  // This one drops every part that is not text.
  const auto headers =
      ChatFormat::from_template(model_template("models.json", "headers"), {{"bos_token", "<s>"}});
  EXPECT_FALSE(headers->template_knows_images());
  const auto text = headers->render(kTurns);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find(kImage + "left, " + kImage + "right?"), std::string::npos) << *text;
  EXPECT_EQ(text->substr(0, 3), "<s>");
}

TEST(Chat, RefusesAPlaceForAnImageThatIsWrittenInAText) {
  const std::vector<ChatTurn> turns = {user_turn({image_part(), text_part("<|image_pad|>?")})};
  for (const auto& format :
       {ChatFormat::qwen(), *ChatFormat::from_template(model_template("models.json", "qwen_vl"))}) {
    const auto text = format.render(turns);
    ASSERT_FALSE(text);
    EXPECT_NE(text.error().message.find("2 places for images"), std::string::npos)
        << text.error().message;
  }
}

TEST(Chat, PassesOnWhatATemplateRefuses) {
  const auto format = ChatFormat::from_template(model_template("models.json", "headers"));
  const std::vector<ChatTurn> turns = {user_turn({text_part("a")}), user_turn({text_part("b")})};
  const auto text = format->render(turns);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("Turns must alternate"), std::string::npos);
}

TEST(Chat, FindsTheImagesAmongTheIds) {
  const auto tokenizer = Tokenizer::load((kRoot / "tests/fixtures/tokenizer").string());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto prompt = make_prompt(ChatFormat::qwen(), *tokenizer, kTurns);
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(prompt->text, kExpected);
  ASSERT_EQ(prompt->images.size(), 2U);
  const int image = *tokenizer->find("<|image_pad|>");
  for (const size_t at : prompt->images) {
    EXPECT_EQ(prompt->ids[at], image);
    EXPECT_EQ(prompt->ids[at - 1], *tokenizer->find("<|vision_start|>"));
    EXPECT_EQ(prompt->ids[at + 1], *tokenizer->find("<|vision_end|>"));
  }
  EXPECT_EQ(tokenizer->decode(prompt->ids), kExpected);

  VisionTokens other;
  other.image = "<no such token>";
  const auto missing = make_prompt(ChatFormat::qwen(other), *tokenizer, kTurns);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("no token <no such token> for images"), std::string::npos);
  EXPECT_TRUE(make_prompt(ChatFormat::qwen(other), *tokenizer, std::span(kTurns).first(2)))
      << "without images none is needed";
}

TEST(CheckTokenizer, TakesTheModelsOwnAndSaysWhatDoesNotFit) {
  const auto tokenizer = Tokenizer::load((kRoot / "tests/fixtures/tokenizer").string());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  ModelConfig model;
  model.text.vocab_size = tokenizer->id_end();
  model.image_token_id = *tokenizer->find("<|image_pad|>");
  model.vision_start_token_id = *tokenizer->find("<|vision_start|>");
  model.vision_end_token_id = *tokenizer->find("<|vision_end|>");
  EXPECT_TRUE(check_tokenizer(*tokenizer, model));

  const auto error_of = [&](const ModelConfig& wrong, const VisionTokens& vision = {}) {
    const Status status = check_tokenizer(*tokenizer, wrong, vision);
    return status ? std::string("no error") : status.error().message;
  };
  ModelConfig small = model;
  --small.text.vocab_size;
  EXPECT_EQ(error_of(small),
            fmt::format("the tokenizer has ids up to {}, but text_config.vocab_size of config.json "
                        "is {}; use the tokenizer.json that belongs to the model",
                        model.text.vocab_size - 1, small.text.vocab_size));
  for (int ModelConfig::*id : {&ModelConfig::image_token_id, &ModelConfig::vision_start_token_id,
                               &ModelConfig::vision_end_token_id}) {
    ModelConfig other = model;
    other.*id = 7;
    EXPECT_NE(error_of(other).find("_token_id of config.json is 7, but <|"), std::string::npos)
        << error_of(other);
  }
  VisionTokens unknown;
  unknown.end = "<no such token>";
  EXPECT_NE(error_of(model, unknown).find("<no such token> is no token in the tokenizer"),
            std::string::npos);
}

TEST_F(ChatFolder, WithoutATemplateIsQwens) { EXPECT_EQ(loaded_text(), kExpected); }

TEST_F(ChatFolder, PrefersTheTemplateOfItsOwnFile) {
  const auto show = [](const std::string& name) {
    return "{{ '" + name + "' }}{% for m in messages %}{{ m.content }}{% endfor %}{{ eos_token }}";
  };
  const std::string turns = "Be brief.HelloHi!" + kImage + "left, " + kImage + "right?";
  write("tokenizer_config.json",
        Json{{"chat_template", show("config ")}, {"eos_token", "</s>"}}.dump());
  EXPECT_EQ(loaded_text(), "config " + turns + "</s>");
  write(
      "tokenizer_config.json",
      Json{{"chat_template", Json::array({{{"name", "tool_use"}, {"template", show("tools ")}},
                                          {{"name", "default"}, {"template", show("default ")}}})},
           {"eos_token", {{"content", "<e>"}}}}
          .dump());
  EXPECT_EQ(loaded_text(), "default " + turns + "<e>");
  write("chat_template.json", Json{{"chat_template", show("processor ")}}.dump());
  EXPECT_EQ(loaded_text(), "processor " + turns + "<e>");
  write("chat_template.jinja", show("file "));
  EXPECT_EQ(loaded_text(), "file " + turns + "<e>");
}

TEST_F(ChatFolder, SaysWhichFileIsWrong) {
  write("tokenizer_config.json", "{");
  EXPECT_NE(loaded_text().find("tokenizer_config.json is not a JSON object"), std::string::npos);
  write("tokenizer_config.json", R"({"chat_template": "{% if %}"})");
  EXPECT_NE(loaded_text().find("tokenizer_config.json: the chat template cannot be read: line 1"),
            std::string::npos)
      << loaded_text();
  write("tokenizer_config.json", R"({"chat_template": 7})");
  EXPECT_EQ(loaded_text(), kExpected);
  fs::create_directory(folder_ / "chat_template.jinja");
  EXPECT_NE(loaded_text().find("cannot read"), std::string::npos) << loaded_text();
}

}  // namespace
}  // namespace fovea
