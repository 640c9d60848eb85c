// SPDX-License-Identifier: Apache-2.0
// The page without a browser: what it holds, what a trace can do in it. tests/page has the rest.
#include "view/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

namespace fovea::view {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kTrace[] =
    R"({"text":"K7","question":"?","looks":[{"image":[640,480],"canvas":[640,480],
        "cells":[[1,0,0],[0,14,19]],"picture":"data:image/png;base64,AA=="}]})";

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The data that the page's script will read.
Json held_by(const std::string& made) {
  const std::string begin = "<script type=\"application/json\" id=\"trace\">";
  const size_t from = made.find(begin) + begin.size();
  return Json::parse(made.substr(from, made.find("</script>", from) - from));
}

TEST(Page, IsWholeAndAsksForNothingElsewhere) {
  const std::string text(page());
  EXPECT_TRUE(text.starts_with("<!doctype html>"));
  EXPECT_TRUE(text.ends_with("</html>\n"));
  for (const std::string hole : {"@style@", "@script@", "@trace@", "@policy@"})
    EXPECT_EQ(text.find(hole), std::string::npos) << hole;
  const std::regex outside(R"((src|href)\s*=\s*["']?(https?:|//))");
  EXPECT_FALSE(std::regex_search(text, outside));
  for (const std::string word :
       {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
        "@import", "url(", " style=", " onclick="})
    EXPECT_EQ(text.find(word), std::string::npos) << word;
}

TEST(Page, ItsPolicyAllowsItsOwnScriptAlone) {
  const std::string policy = page_policy();
  for (const std::string part : {"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-",
                                 "frame-ancestors 'none'", "base-uri 'none'"})
    EXPECT_NE(policy.find(part), std::string::npos) << part;
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_TRUE(std::regex_search(policy, std::regex("'sha256-[A-Za-z0-9+/]{43}='")));
}

TEST(Page, HoldsATrace) {
  const auto made = page_with(kTrace);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(held_by(*made), Json::parse(kTrace));
  EXPECT_EQ(std::string(page()).find("id=\"trace\""), std::string::npos);
}

TEST(Page, ATraceCannotEndItsElement) {
  const std::string hostile =
      "</script><script>alert(1)</script><!-- <script> ]]> &lt; \xe2\x80\xa8";
  Json trace = Json::parse(kTrace);
  trace["text"] = hostile;
  trace[hostile] = hostile;
  const auto made = page_with(trace.dump());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(count_of(*made, "<script"), 2u) << "that of the trace and that of the page";
  EXPECT_EQ(count_of(*made, "</script"), 2u);
  EXPECT_EQ(held_by(*made), trace);
}

TEST(Page, WhatIsNoTraceIsOneLine) {
  const std::string start = R"({"looks":[{"image":[64,64],"canvas":[64,64],"cells":)";
  for (const std::string& bad :
       {std::string(),
        std::string("{"),
        std::string("[]"),
        std::string("{}"),
        std::string(R"({"looks":{}})"),
        std::string(R"({"looks":[1]})"),
        std::string(R"({"looks":[{}]})"),
        std::string(R"({"looks":[{"image":[64,64]}]})"),
        std::string(R"({"looks":[{"image":[64,64],"canvas":[0,64],"cells":[]}]})"),
        std::string(R"({"looks":[{"image":[64,64],"canvas":[64,1e9],"cells":[]}]})"),
        std::string(R"({"looks":[],"text":7})"),
        std::string(R"({"looks":[],"answer_attention":7})"),
        start + R"("x"}]})",
        start + "[[0,0]]}]}",
        start + "[[0,2,0]]}]}",
        start + "[[0,0,2]]}]}",
        start + "[[-1,0,0]]}]}",
        start + "[[25,0,0]]}]}",
        start + "[[0,0,0.5]]}]}",
        start + "[[0,18446744073709551615,0]]}]}",
        start + R"([],"maps":[]}]})",
        start + R"([],"picture":7}]})",
        start + R"([],"saccades":{}}]})",
        std::string(70, '[') + std::string(70, ']')}) {
    const auto made = page_with(bad);
    ASSERT_FALSE(made) << bad;
    EXPECT_EQ(made.error().kind, Error::Kind::kBadInput) << bad;
    EXPECT_EQ(made.error().message.find('\n'), std::string::npos) << made.error().message;
  }
  EXPECT_TRUE(page_with(R"({"looks":[]})"));
  EXPECT_TRUE(page_with(start + "[[1,0,0],[0,1,1],[24,0,0]]}]}"));
}

}  // namespace
}  // namespace fovea::view
