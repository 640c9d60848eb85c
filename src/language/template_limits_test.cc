// SPDX-License-Identifier: Apache-2.0
// What a hostile template may cost, and that an honest one is far from it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "language/template.h"
#include "language/template/value.h"
#include "places.h"

namespace fovea {
namespace {

using Json = nlohmann::ordered_json;

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

std::string repeated(const std::string& unit, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += unit;
  return out;
}

std::string numbered(const std::string& front, int times, const std::string& back) {
  std::string out;
  for (int i = 0; i < times; ++i) out += front + std::to_string(i) + back;
  return out;
}

// Each took minutes or gigabytes while only steps of the tree were counted.
const std::vector<std::string>& costly() {
  const std::string mega = "{% set t = 'ab' * 2000000 %}{% set z = t + 'c' %}";
  const std::string loop = "{% for i in range(99999) %}";
  static const std::vector<std::string> kSources = {
      mega + loop + "{{ t is upper }}{{ t is lower }}{% endfor %}",
      mega + loop + "{{ z.find('b' * 1000 + 'a') }}{% endfor %}",
      mega + "{{ ('a' * 8000000) .find('a' * 4000000 + 'b') }}" + loop +
          "{{ ('a' * 2000000 + 'b') in z }}{% endfor %}",
      mega + loop + "{{ t.strip('xyab') }}{% endfor %}",
      "{% set s = 'x' * 1000000 %}{{ ('a' * 1000000).strip(s + 'a') }}",
      mega + loop + "{{ t.startswith(affix=t) }}{{ t.count('ab') }}{% endfor %}",
      mega + loop + "{{ [t, z, t, z] | unique | list | length }}{% endfor %}",
      mega + loop + "{{ (t ~ 'x') == z }}{{ t | length }}{{ t | int }}{% endfor %}",
      "{% set l = range(99999) | list %}" + loop +
          "{{ l | map('string') | unique | list }}{% endfor %}",
      numbered("{% set name", 40000, " = 1 %}") + loop + loop +
          "{{ name39999 }}{{ nothing }}{% endfor %}{% endfor %}",
      "{% set d = {" + numbered("'k", 50000, "': 1, ") + "} %}" + loop + loop +
          "{{ d.k49999 }}{% endfor %}{% endfor %}",
      "{% macro m(" + numbered("a", 30000, ", ") + ") %}{% endmacro %}" + loop + "{{ m(" +
          numbered("a", 30000, "=1, ") + ") }}{% endfor %}",
      "{% set s = '1' * 4000000 %}" + loop + "{{ strftime_now(s) }}{% endfor %}",
      loop + loop + "{{ strftime_now('%c %c %c') }}{% endfor %}{% endfor %}",
      "{% set d = {" + numbered("'k", 20000, "': 1, ") + "} %}" + loop +
          "{{ dict(d) | length }}{{ namespace(d) | string | length }}{% endfor %}",
      mega + "{{ t | indent('x' * 1000000) }}{{ ('\\n' * 4000000) | indent }}",
      mega + "{{ t.split('a') | length }}",
      "{{ ('\\n' * 8000000).splitlines() | length }}",
      "{{ ('a ' * 4000000).split() | sort | length }}",
      mega + "{{ t | list | sort | join(t) }}",
      mega + "{{ range(9999) | join(t) }}",
      mega + "{% set ns = namespace(l=[]) %}" + loop +
          "{% set ns.l = ns.l + [t ~ i] %}{% endfor %}",
      "{% macro m(k) %}{{ 'a' * 8000000 }}{{ m(k + 1) }}{% endmacro %}{{ m(0) }}",
      "{% macro m(k) %}{% for i in range(99999) %}{{ m(k + 1) }}{% endfor %}{% endmacro %}{{ m(0) "
      "}}",
      loop + "{% set x" + std::string(500000, 'x') + " = 1 %}{{ y" + std::string(400000, 'y') +
          " }}{% endfor %}",
      "{% set l = [" + repeated(std::string(10, 'q') + ", ", 80000) + "] %}" + loop +
          "{{ l + l }}{% endfor %}",
  };
  return kSources;
}

TEST(TemplateLimits, WorkAndBytesOfHostileTemplatesAreBounded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "each search looks at the whole rest of a text there, which takes minutes";
#endif
  for (const std::string& source : costly()) {
    const auto parsed = Template::parse(source);
    ASSERT_TRUE(parsed) << parsed.error().message << source.substr(0, 100);
    RenderCost cost;
    const auto start = std::chrono::steady_clock::now();
    auto last = start;
    double longest = 0;  // that it did not ask whether to go on
    const auto text = parsed->render(
        Json::object(), {.keep_going =
                             [&] {
                               const auto now = std::chrono::steady_clock::now();
                               longest = std::max(
                                   longest, std::chrono::duration<double>(now - last).count());
                               last = now;
                               return true;
                             },
                         .cost = &cost});
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_LT(longest, 5) << source.substr(0, 200);  // 0.1 s without sanitizers
    EXPECT_LE(cost.steps, cost.max_steps);
    EXPECT_LE(cost.bytes, cost.max_bytes);
    // About a second; sanitizers and other work on the machine are slow.
    EXPECT_LT(taken.count(), 30) << source.substr(0, 200);
    EXPECT_FALSE(text) << source.substr(0, 200) << " gives " << text->size() << " bytes";
  }
  EXPECT_LT(peak_mib(), 1024);  // 90 of them ours; sanitizers keep more
}

TEST(TemplateLimits, HonestTemplatesTakeFarLess) {
  std::ifstream file(std::filesystem::path(source_dir()) / "tests/fixtures/chat/models.json");
  const Json golden = Json::parse(file);
  const auto chat_of = [](int count, size_t bytes) {
    Json messages = Json::array();
    for (int i = 0; i < count; ++i)
      messages.push_back(
          {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(bytes, 'a')}});
    return Json{{"messages", messages}, {"tools", nullptr}, {"add_generation_prompt", true}};
  };
  for (const Json& model : golden["models"]) {
    if (model["name"] != "qwen3_vl" && model["name"] != "qwen_vl") continue;
    const auto parsed = Template::parse(model["template"].get<std::string>());
    for (const auto& [messages, bytes] : {std::pair<int, size_t>{1, 10},
                                          {1001, 100},
                                          {1001, 5000},
                                          {11, 100'000},
                                          {1, 10'000'000}}) {
      RenderCost cost;
      const auto text = parsed->render(chat_of(messages, bytes), {.cost = &cost});
      ASSERT_TRUE(text) << text.error().message;
      EXPECT_GT(text->size(), static_cast<size_t>(messages) * bytes);
      EXPECT_LT(cost.steps * 4, cost.max_steps) << model["name"] << messages << " of " << bytes;
      EXPECT_LT(cost.bytes * 4, cost.max_bytes) << model["name"] << messages << " of " << bytes;
    }
  }
}

}  // namespace
}  // namespace fovea
