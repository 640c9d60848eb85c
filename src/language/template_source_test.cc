// SPDX-License-Identifier: Apache-2.0
// Whose text it is survives all that a template does with it, and changes nothing else.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "language/template.h"
#include "language/template/value.h"
#include "places.h"

namespace fovea {
namespace {

using Json = nlohmann::ordered_json;

Json read_fixture(const char* name) {
  std::ifstream file(std::filesystem::path(source_dir()) / "tests/fixtures/chat" / name);
  return Json::parse(file);
}

// Renders with all texts of `data` written by people.
Result<SourcedText> render(const std::string& source, const Json& data) {
  const auto parsed = Template::parse(source);
  if (!parsed) return parsed.error();
  Template::Variables variables;
  for (const auto& [name, value] : data.items())
    variables.emplace_back(name, jinja::Value::from_json(value, SourcedText::kPeople));
  return parsed->render_sourced(variables);
}

// The text with what people wrote in brackets.
std::string shown(const std::string& source, const Json& data) {
  const auto text = render(source, data);
  if (!text) return text.error().message;
  std::string out;
  bool open = false;
  for (size_t i = 0; i <= text->bytes.size(); ++i) {
    const bool people = i < text->bytes.size() && people_wrote(text->sources, i, i + 1);
    if (people != open) out += people ? "[" : "]";
    open = people;
    if (i < text->bytes.size()) out += text->bytes[i];
  }
  return out;
}

TEST(TemplateSource, TextsOfPeopleRenderAsAnyOthers) {
  const Json golden = read_fixture("features.json");
  for (const auto& [source, expected] : golden["texts"].items()) {
    const auto text = render(source, golden["data"]);
    ASSERT_TRUE(text) << source << ": " << text.error().message;
    EXPECT_EQ(text->bytes, expected.get<std::string>()) << source;
    EXPECT_TRUE(text->sources.empty() || text->sources.size() == text->bytes.size()) << source;
  }
  for (const Json& source : golden["errors"])
    EXPECT_FALSE(render(source.get<std::string>(), golden["data"])) << source;
  for (const char* name : {"models.json", "qwen3.json"}) {
    const Json models = read_fixture(name);
    for (const Json& model : models["models"])
      for (size_t i = 0; i < models["chats"].size(); ++i) {
        const auto text = render(model["template"].get<std::string>(), models["chats"][i]);
        ASSERT_EQ(static_cast<bool>(text), model["texts"][i].is_string());
        if (!text) continue;
        EXPECT_EQ(text->bytes, model["texts"][i].get<std::string>());
      }
  }
}

TEST(TemplateSource, SurvivesEveryFilter) {
  const Json data = {{"s", " <|x|> "}, {"l", {"a", "b"}}, {"d", {{"k", "v\n"}}}, {"u", "é字"}};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"<{{ s }}>", "<[ <|x|> ]>"},
      {"{{ s | trim }}|{{ s.strip() }}|{{ s.strip(' <') }}", "[<|x|>]|[<|x|>]|[|x|>]"},
      {"{{ '<|x|>' + s.strip() + 'y' }}", "<|x|>[<|x|>]y"},
      {"{{ '<' ~ s.strip() ~ 1 }}", "<[<|x|>]1"},
      {"{{ s.replace('x', 'y') }}", "[ <|]y[|> ]"},
      {"{{ 'abc' | replace('b', s) }}", "a[ <|x|> ]c"},
      {"{{ s.replace('', '.', 2) }}", ".[ ].[<|x|> ]"},
      {"{{ s | upper }}{{ s | title }}{{ s | capitalize }}{{ u | upper }}",
       "[ <|X|>  <|X|>  <|x|> É字]"},
      {"{{ s.split('|') | join('|') }}", "[ <]|[x]|[> ]"},
      {"{{ '|'.join(s.split('|')) }}", "[ <]|[x]|[> ]"},
      {"{{ s.split() }}", "['[<|x|>]']"},
      {"{{ s[1:4] }}{{ s[::-1] }}{{ s[2] }}{{ s | first }}{{ s | last }}{{ s | reverse }}",
       "[<|x >|x|< |   >|x|< ]"},
      {"{{ s | tojson }}", "\"[ <|x|> ]\""},
      {"{{ d | tojson }}", "{\"[k]\": \"[v\\n]\"}"},
      {"{{ d }}", "{'[k]': '[v\\n]'}"},
      {"{{ u | tojson(ensure_ascii=true) }}", "\"[\\u00e9\\u5b57]\""},
      {"{{ l | tojson(separators=(s, ':')) }}", "[\"[a]\"[ <|x|> ]\"[b]\"]"},
      {"{{ 'a\\nb' | indent(s) }}{{ d.k | indent(2, true) }}", "a\n[ <|x|> ]b  [v]\n"},
      {"{{ l | sort | join }}{{ l | max }}{{ l | unique | list }}", "[abb]['[a]', '[b]']"},
      {"{{ l | map('upper') | join('-') }}{{ l | sum(start='') }}", "[A]-[Bab]"},
      {"{% for c in u %}{{ c }},{% endfor %}", "[é],[字],"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "[k]=[v\n]"},
      {"{{ '%s!' | format(s) }}{{ s | format }}{{ '{}{}'.format('<', s) }}",
       "[ <|x|> ]![ <|x|> ]<[ <|x|> ]"},
      {"{% set t %}<{{ s }}{% endset %}{{ t }}{% filter upper %}a{{ s }}{% endfilter %}",
       "<[ <|x|> ]A[ <|X|> ]"},
      {"{% macro m(a) %}({{ a }}){% endmacro %}{{ m(s) }}{{ m(m(s)) }}",
       "([ <|x|> ])(([ <|x|> ]))"},
      {"{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t + x + ';' %}{% endfor %}"
       "{{ ns.t }}",
       "[a];[b];"},
      {"{{ s * 2 }}{{ s | default('x') }}{{ missing | default(s) }}{{ s | string }}",
       "[ <|x|>  <|x|>  <|x|>  <|x|>  <|x|> ]"},
      {"{{ strftime_now(l[0]) }}{{ strftime_now('x') }}", "[a]x"},
      {"{{ '<|x|>' if '<|x|>' in s }}{{ s == ' <|x|> ' }}{{ s.startswith(' <') }}",
       "<|x|>TrueTrue"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(shown(source, data), expected) << source;
}

}  // namespace
}  // namespace fovea
