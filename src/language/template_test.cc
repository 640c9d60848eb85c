// SPDX-License-Identifier: Apache-2.0
#include "language/template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "places.h"

namespace fovea {
namespace {

using Json = nlohmann::ordered_json;

Json read_fixture(const char* name) {
  std::ifstream file(std::filesystem::path(source_dir()) / "tests/fixtures/chat" / name);
  return Json::parse(file);
}

Result<std::string> render(const std::string& source, const Json& variables = Json::object()) {
  const auto parsed = Template::parse(source);
  if (!parsed) return parsed.error();
  return parsed->render(variables);
}

std::string text_of(const std::string& source, const Json& variables = Json::object()) {
  const auto text = render(source, variables);
  return text ? *text : "error: " + text.error().message;
}

TEST(Template, EqualsJinjaInEveryFeature) {
  const Json golden = read_fixture("features.json");
  ASSERT_GT(golden["texts"].size(), 70U);
  for (const auto& [source, expected] : golden["texts"].items())
    EXPECT_EQ(text_of(source, golden["data"]), expected.get<std::string>()) << source;
}

TEST(Template, RefusesWhatJinjaRefuses) {
  const Json golden = read_fixture("features.json");
  for (const Json& source : golden["errors"]) {
    const auto text = render(source.get<std::string>(), golden["data"]);
    ASSERT_FALSE(text) << source << " gives " << *text;
    EXPECT_EQ(text.error().kind, Error::Kind::kBadInput);
    EXPECT_EQ(text.error().message.find("the chat template "), 0U) << text.error().message;
    EXPECT_EQ(text.error().message.find('\n'), std::string::npos) << text.error().message;
  }
}

TEST(Template, EqualsJinjaOnTemplatesOfModels) {
  int compared = 0;
  for (const char* name : {"models.json", "qwen3.json"}) {
    const Json golden = read_fixture(name);
    for (const Json& model : golden["models"]) {
      const auto parsed = Template::parse(model["template"].get<std::string>());
      ASSERT_TRUE(parsed) << model["name"] << ": " << parsed.error().message;
      for (size_t i = 0; i < golden["chats"].size(); ++i) {
        const auto text = parsed->render(golden["chats"][i]);
        const Json& expected = model["texts"][i];
        ++compared;
        ASSERT_EQ(static_cast<bool>(text), expected.is_string())
            << model["name"] << " " << i << ": " << (text ? *text : text.error().message);
        if (!text) continue;
        EXPECT_EQ(*text, expected.get<std::string>()) << model["name"] << " " << i;
      }
    }
  }
  EXPECT_GE(compared, 50);
}

TEST(Template, SaysWhereATemplateIsWrong) {
  EXPECT_EQ(text_of("a\nb\n{% if x %}\n{{ y"),
            "error: the chat template cannot be read: line 4: a tag has no end");
  EXPECT_EQ(text_of("\n{% nosuch %}").substr(0, 76),
            "error: the chat template cannot be read: line 2: the tag {% nosuch %} is not");
  EXPECT_EQ(text_of("{{ messages[0].role }}", {{"messages", Json::array()}}),
            "error: the chat template failed: 'an item outside' is undefined");
  EXPECT_EQ(text_of("{{ raise_exception('One\nimage only') }}"),
            "error: the chat template failed: it says: One image only");
}

TEST(Template, KnowsTheYear) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  // The year may change between the two.
  const std::string year = text_of("{{ strftime_now('%Y') }}");
  EXPECT_NEAR(std::stoi(year), 1900 + local.tm_year, 1);
}

TEST(Template, TakesTextsThatAreNotUtf8) {
  EXPECT_EQ(text_of("{{ t[0] }}{{ t | length }}{{ t | upper }}", {{"t", "\xF0\x9F"}}),
            "\xEF\xBF\xBD"
            "1\xEF\xBF\xBD");
  EXPECT_EQ(text_of("\xFF"), "error: the chat template cannot be read: it is not UTF-8");
}

// Each of these would go on for ever, fill the memory or the stack.
TEST(Template, EndsHostileTemplates) {
  const std::string many =
      "{% set ns = namespace(s='aaaaaaaaaaaaaaaa', l=[1]) %}{% for i in range(99999) %}";
  const std::vector<std::string> sources = {
      many + "{% for j in range(99999) %}{% endfor %}{% endfor %}",
      many + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
      many + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      many + "{% set ns.l = ns.l + ns.l %}{% endfor %}",
      many + "{% set ns.l = [ns.l] %}{% endfor %}",
      many + "{% set ns.l = [ns.l, ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l == ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l | tojson }}",
      many +
          "{{ "
          "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' "
          "* 2 }}{% endfor %}",
      many + "{{ range(99999) | sort | length }}{% endfor %}",
      many + "{{ 7 in range(99999) }}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(k) %}{% for i in range(9) %}{{ m(k + 1) if k < 9 }}{% endfor %}{% endmacro %}{{ "
      "m(0) }}",
      "{{ 'a' * 1000000000000 }}",
      "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
      "{{ 'a' | indent(1000000000) }}",
      "{{ ['x'] | tojson(indent=1000000000) }}",
      "{{ 2 ** 99999999 }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ range(-9223372036854775807, 9223372036854775807) }}",
      std::string(100000, '(') + std::string(100000, ')'),
      "{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}",
      "{{ " + std::string(100000, '[') + " }}",
      "{{ " + std::string(100000, '-') + "1 }}",
      "{% if 1 %}" +
          [] {
            std::string s;
            for (int i = 0; i < 5000; ++i) s += "{% if 1 %}";
            return s;
          }(),
      "{{ 1" +
          [] {
            std::string s;
            for (int i = 0; i < 100000; ++i) s += "+1";
            return s;
          }() +
          " }}",
      "{{ a" +
          [] {
            std::string s;
            for (int i = 0; i < 100000; ++i) s += ".a";
            return s;
          }() +
          " }}",
      "{{ a" +
          [] {
            std::string s;
            for (int i = 0; i < 100000; ++i) s += "|d";
            return s;
          }() +
          " }}",
      "{{ " +
          [] {
            std::string s;
            for (int i = 0; i < 100000; ++i) s += "not ";
            return s;
          }() +
          "a }}",
      "{% set ns = namespace() %}{% set ns.x = ns %}",
      "{% macro m() %}{% endmacro %}{{ [m] }}",
      std::string(3 << 20, 'x'),
  };
  for (const std::string& source : sources) {
    const auto start = std::chrono::steady_clock::now();
    const auto text = render(source);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    // Sanitizers are slow; without a limit none of these would end.
    EXPECT_LT(taken.count(), 60) << source.substr(0, 200);
    if (source[0] == '(') continue;  // brackets outside a tag are text
    EXPECT_FALSE(text) << source.substr(0, 200) << " gives " << text->size() << " bytes";
  }
}

TEST(Template, RefusesDeepVariables) {
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({deep});
  EXPECT_FALSE(render("{{ x }}", {{"x", deep}}));
}

}  // namespace
}  // namespace fovea
