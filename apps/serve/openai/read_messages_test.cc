// SPDX-License-Identifier: Apache-2.0
// Messages, their pictures and their tools, as parse_chat_call() reads them.
#include "serve/openai/read_messages.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "serve/openai/test_chat_request.h"

namespace fovea::serve {
namespace {

TEST(ParseChatCall, TakesAConversation) {
  const ChatCall call = take(body_of(R"([
      {"role":"developer","content":"Be brief.","name":"me"},
      {"role":"system","content":[{"type":"text","text":"And kind."}]},
      {"role":"user","content":[{"type":"text","text":"Weather?"},{"type":"text","text":"Now."}]},
      {"role":"assistant","content":null,"refusal":null,"audio":null,"function_call":null,
       "tool_calls":[{"id":"call_1","type":"function","function":
         {"name":"weather","arguments":"{\"city\": \"Bern\", \"a\": [1]}"}},
        {"id":"call_2","type":"function","function":{"name":"now","arguments":"not JSON"}},
        {"id":"call_3","type":"function","function":{"name":"now","arguments":""}}]},
      {"role":"tool","tool_call_id":"call_1","content":"Rain"},
      {"role":"tool","tool_call_id":"call_2","content":[{"type":"text","text":"Noon"}]},
      {"role":"assistant","content":[{"type":"text","text":"Rain."},
        {"type":"refusal","refusal":"No more."}],"tool_calls":[]},
      {"role":"assistant","content":null,"refusal":"I will not."},
      {"role":"assistant","content":[],"tool_calls":[{"function":{"name":"f","arguments":{}}}]},
      {"role":"user","content":""}])"));
  std::vector<std::string> roles;
  std::string texts;
  for (const Message& message : call.request.messages) {
    roles.push_back(message.role);
    for (const Part& part : message.parts) texts += part.text + "|";
  }
  EXPECT_EQ(roles,
            (std::vector<std::string>{"system", "system", "user", "assistant", "tool", "tool",
                                      "assistant", "assistant", "assistant", "user"}));
  EXPECT_EQ(texts, "Be brief.|And kind.|Weather?|Now.|Rain|Noon|Rain.|No more.|I will not.||");
  EXPECT_EQ(call.request.messages[3].tool_calls,
            R"([{"id":"call_1","type":"function","function":{"name":"weather","arguments":)"
            R"({"city":"Bern","a":[1]}}},{"id":"call_2","type":"function","function":)"
            R"({"name":"now","arguments":"not JSON"}},{"id":"call_3","type":"function",)"
            R"("function":{"name":"now","arguments":{}}}])");
  EXPECT_EQ(call.request.messages[6].tool_calls, "");
}

// Arguments that are deeper than a template takes stay a text, which it writes out as it is.
TEST(ParseChatCall, DeepArgumentsStayText) {
  for (const int levels : {29, 30, 40, 100'000}) {
    std::string deep;
    for (int i = 0; i < levels; ++i) deep += "{\"a\":";
    deep += "1" + std::string(static_cast<size_t>(levels), '}');
    const Json call = {{"function", {{"name", "f"}, {"arguments", deep}}}};
    const Json messages = {{{"role", "assistant"}, {"tool_calls", {call}}},
                           {{"role", "user"}, {"content", "x"}}};
    const ChatCall parsed = take(Json{{"messages", messages}}.dump());
    const Json calls = Json::parse(parsed.request.messages.at(0).tool_calls);
    EXPECT_EQ(calls[0]["function"]["arguments"].is_string(), levels > 29) << levels;
  }
}

TEST(ParseChatCall, RefusesAWrongMessageAndNamesItsKey) {
  const Bad rows[] = {
      {R"([1])", "messages[0]"},
      {R"([null])", "messages[0]"},
      {R"([{}])", "messages[0].role"},
      {R"([{"role":1,"content":"a"}])", "messages[0].role"},
      {R"([{"role":"function","name":"f","content":"a"}])", "messages[0].role"},
      {R"([{"role":"User","content":"a"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":1}])", "messages[0].content"},
      {R"([{"role":"user","content":{}}])", "messages[0].content"},
      {R"([{"role":"user","content":[]}])", "messages[0].content"},
      {R"([{"role":"user","content":["a"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":1}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"text","text":1}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_image"}]}])",
       "messages[0].content[1].type"},
      {R"([{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"refusal","refusal":"a"}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"system","content":[{"type":"image_url","image_url":"data:"}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"user","content":"a"},{"role":"assistant"},{"role":"user","content":"a"}])",
       "messages[1].content"},
      {R"([{"role":"assistant","content":"a","function_call":{}},{"role":"user","content":"a"}])",
       "messages[0].function_call"},
      {R"([{"role":"assistant","content":"a","audio":{"id":"x"}},{"role":"user","content":"a"}])",
       "messages[0].audio"},
      {R"([{"role":"assistant","tool_calls":1}])", "messages[0].tool_calls"},
      {R"([{"role":"assistant","tool_calls":[1]}])", "messages[0].tool_calls[0]"},
      {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0].function"},
      {R"([{"role":"assistant","tool_calls":[{"type":"custom"}]}])",
       "messages[0].tool_calls[0].type"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}])",
       "messages[0].tool_calls[0].function.name"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[]}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
      {R"([{"role":"tool","content":"a"}])", "messages[0].tool_call_id"},
      {R"([{"role":"tool","content":"a","tool_call_id":1}])", "messages[0].tool_call_id"},
      {R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])", "messages[1].role"},
      {R"([{"role":"system","content":"a"}])", "messages[0].role"},
  };
  for (const Bad& row : rows) {
    const ApiError error = refuse(body_of(row.keys));
    EXPECT_EQ(error.param, row.param) << row.keys << ": " << error.message;
  }
}

TEST(ParseChatCall, NumbersPictures) {
  const ChatCall call =
      take(body_with(shows({R"("image_url":{"url":"data:a"},"uuid":"u1")",
                            R"("image_url":"http://b")", R"("image_url":null,"uuid":"u2")",
                            R"("uuid":"u3")", R"("image_url":{"url":null},"uuid":"u4")"})));
  ASSERT_EQ(call.pictures.size(), 5u);
  const char* expected[][2] = {
      {"data:a", "u1"}, {"http://b", ""}, {"", "u2"}, {"", "u3"}, {"", "u4"}};
  const auto& parts = call.request.messages.at(0).parts;
  ASSERT_EQ(parts.size(), 6u);
  EXPECT_EQ(parts[0].image, -1);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(call.pictures[i].url, expected[i][0]);
    EXPECT_EQ(call.pictures[i].uuid, expected[i][1]);
    EXPECT_EQ(call.pictures[i].param,
              "messages[0].content[" + std::to_string(i + 1) + "].image_url");
    EXPECT_EQ(parts[i + 1].image, static_cast<int>(i));
  }
  EXPECT_TRUE(call.request.images.empty());
}

TEST(ParseChatCall, RefusesAWrongPicture) {
  const Bad rows[] = {
      {R"("image_url":null)", "image_url"},
      {R"("other":1)", "image_url"},
      {R"("image_url":"")", "image_url"},
      {R"("image_url":1)", "image_url"},
      {R"("image_url":{})", "image_url"},
      {R"("image_url":{"url":""})", "image_url"},
      {R"("image_url":{"url":1})", "image_url.url"},
      {R"("image_url":{"url":"a","detail":"huge"})", "image_url.detail"},
      {R"("image_url":{"url":"a","detail":1})", "image_url.detail"},
      {R"("image_url":"a","uuid":1)", "uuid"},
  };
  for (const Bad& row : rows)
    EXPECT_EQ(refuse(body_with(shows({row.keys}))).param,
              std::string("messages[0].content[1].") + row.param)
        << row.keys;
  const std::string long_uuid = R"("uuid":")" + std::string(257, 'u') + "\"";
  EXPECT_EQ(refuse(body_with(shows({long_uuid}))).param, "messages[0].content[1].uuid");
  const std::string one = R"("image_url":"a")";
  take(body_with(shows({one, one})), {.pictures = 2});
  EXPECT_EQ(refuse(body_with(shows({one, one, one})), {.pictures = 2}).param, "messages");
}

TEST(ParseChatCall, DetailIsABudget) {
  struct Row {
    std::vector<const char*> details;  // null: not given
    const char* keys;
    const char* plan;
    int budget;
  };
  const Row rows[] = {
      {{"low"}, "", "glance+look", 64},
      {{"auto"}, "", "glance+look", 96},
      {{nullptr}, "", "glance+look", 96},
      {{"high"}, "", "glance+look", 256},
      {{"original"}, "", "uniform", -1},
      {{"low", "low"}, "", "glance+look", 64},
      {{"low", nullptr}, "", "glance+look", 96},
      {{"high", "low", "auto"}, "", "glance+look", 256},
      {{"high", "original", "low"}, "", "uniform", -1},
      {{"low"}, R"("fovea":{},)", "glance+look", 64},
      {{"low"}, R"("fovea":{"budget":500},)", "glance+look", 500},
      {{"original"}, R"("fovea":{"budget":500},)", "glance+look", 500},
      {{"original"}, R"("fovea":{"plan":"quadtree"},)", "quadtree", -1},
      {{nullptr}, R"("fovea":{"plan":"uniform"},)", "uniform", -1},
      {{"high"}, R"("fovea":{"plan":"quadtree"},)", "quadtree", 256},
      {{}, R"("fovea":{"plan":"quadtree","budget":7},)", "quadtree", 7},
  };
  for (const Row& row : rows) {
    std::vector<std::string> parts;
    for (const char* detail : row.details)
      parts.push_back(R"("image_url":{"url":"a")" +
                      (detail == nullptr ? "" : R"(,"detail":")" + std::string(detail) + "\"") +
                      "}");
    const AskOptions options = options_of(row.keys + shows(parts));
    EXPECT_EQ(options.plan, row.plan) << row.keys << shows(parts);
    EXPECT_EQ(options.budget_tokens, row.budget) << row.keys << shows(parts);
  }
}

TEST(ParseChatCall, PlacesArePerPicture) {
  const std::string one = shows({R"("image_url":"a")"});
  const std::string two = shows({R"("image_url":"a")", R"("image_url":"b")"});
  ChatCall call = take(body_with(
      R"("fovea":{"fixations":[null,[[1,2.5],[3,4]]],"regions":[[[1,2,3,4]],[]]},)" + two));
  EXPECT_EQ(call.request.options.fixations,
            (std::vector<std::vector<Point>>{{}, {{1, 2.5}, {3, 4}}}));
  EXPECT_EQ(call.pictures.at(0).regions, (std::vector<std::array<double, 4>>{{1, 2, 3, 4}}));
  EXPECT_TRUE(call.pictures.at(1).regions.empty());
  // Of one picture, the list by itself.
  call = take(body_with(R"("fovea":{"fixations":[[5,6]],"regions":[[1,2,3,4],[5,6,7,8]]},)" + one));
  EXPECT_EQ(call.request.options.fixations, (std::vector<std::vector<Point>>{{{5, 6}}}));
  EXPECT_EQ(call.pictures.at(0).regions.size(), 2u);

  const Bad rows[] = {
      {R"("fixations":[[1,2]])", "fovea.fixations"},
      {R"("fixations":[[],[],[]])", "fovea.fixations"},
      {R"("fixations":[[[1]]])", "fovea.fixations[0][0]"},
      {R"("fixations":[[[1,2,3]]])", "fovea.fixations[0][0]"},
      {R"("fixations":[[1],[[1,2]]])", "fovea.fixations"},
      {R"("fixations":[[["a",2]]])", "fovea.fixations[0][0][0]"},
      {R"("fixations":["a"])", "fovea.fixations[0]"},
      {R"("fixations":[[],[[1,1e300]]])", "fovea.fixations[1][0][1]"},
      {R"("regions":[[[1,2,0,4]]])", "fovea.regions[0][0][2]"},
      {R"("regions":[[[1,2,3,-4]]])", "fovea.regions[0][0][3]"},
      {R"("regions":[[[1,2,3]]])", "fovea.regions[0][0]"},
  };
  for (const Bad& row : rows)
    EXPECT_EQ(refuse(body_with(R"("fovea":{)" + std::string(row.keys) + "}," + two)).param,
              row.param)
        << row.keys;
  std::string many;
  for (int i = 0; i < 257; ++i) many += (i == 0 ? "" : ",") + std::string("[1,2]");
  EXPECT_EQ(refuse(body_with(R"("fovea":{"fixations":[)" + many + "]}," + one)).param,
            "fovea.fixations");
}

TEST(CoupleRegions, MarksTheCellsThatARegionTouches) {
  const Size image{100, 64};  // 4 x 2 cells of 25 x 32 px
  EXPECT_TRUE(couple_regions({}, image).empty());
  EXPECT_TRUE(couple_regions({{1, 2, 3, 4}}, {}).empty());
  const auto cells = [&](const std::vector<std::array<double, 4>>& regions) {
    const Map map = couple_regions(regions, image);
    EXPECT_EQ(map.grid, (Grid{2, 4}));
    std::string text;
    for (const uint16_t score : map.score) text += score == 65535 ? '1' : score == 0 ? '0' : '?';
    return text;
  };
  EXPECT_EQ(cells({{0, 0, 100, 64}}), "11111111");
  EXPECT_EQ(cells({{0, 0, 25, 32}}), "10000000");
  EXPECT_EQ(cells({{30, 40, 1, 1}}), "00000100");
  EXPECT_EQ(cells({{24, 31, 2, 2}}), "11001100");
  EXPECT_EQ(cells({{-50, -50, 60, 60}, {99.5, 63.5, 1e9, 1e9}}), "10000001");
  EXPECT_EQ(cells({{200, 200, 5, 5}}), "00000000");
  EXPECT_EQ(cells({{-1e9, -1e9, 1, 1}}), "00000000");
}

TEST(ParseChatCall, TakesTools) {
  const std::string tools = kTools;
  ChatCall call = take(body_with(tools));
  EXPECT_EQ("\"tools\":" + call.request.options.tools, tools) << "in the order of their keys";
  EXPECT_EQ(call.tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(take(body_with(tools + R"(,"tool_choice":"auto")")).tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(take(body_with(tools + R"(,"tool_choice":"required")")).tool_choice,
            ToolChoice::kRequired);
  call = take(body_with(tools + R"(,"tool_choice":"none")"));
  EXPECT_EQ(call.tool_choice, ToolChoice::kNone);
  EXPECT_EQ(call.request.options.tools, "") << "a model that must not call is not told of them";
  call = take(body_with(tools + R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"));
  EXPECT_EQ(call.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(call.tool_name, "g");
  // Without tools these change nothing.
  EXPECT_EQ(take(body_with(R"("tool_choice":"none")")).tool_choice, ToolChoice::kNone);
}

TEST(ParseChatCall, RefusesWrongTools) {
  const std::string tools = std::string(kTools) + ",";
  const std::pair<std::string, const char*> rows[] = {
      {R"("tools":[])", "tools"},
      {R"("tools":{})", "tools"},
      {R"("tools":["f"])", "tools[0]"},
      {R"("tools":[{"type":"custom"}])", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {R"("tools":[{"type":"function","function":"f"}])", "tools[0].function"},
      {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":1}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":""}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":1}}])",
       "tools[0].function.parameters"},
      {R"("tools":[{"type":"function","function":{"name":"f","description":1}}])",
       "tools[0].function.description"},
      {R"("tool_choice":"auto")", "tool_choice"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
      {tools + R"("tool_choice":"maybe")", "tool_choice"},
      {tools + R"("tool_choice":1)", "tool_choice"},
      {tools + R"("tool_choice":{"type":"function","function":{"name":"h"}})", "tool_choice"},
      {tools + R"("tool_choice":{"type":"function"})", "tool_choice.function"},
      {tools + R"("tool_choice":{"type":"allowed_tools"})", "tool_choice.type"},
  };
  for (const auto& [keys, param] : rows) EXPECT_EQ(refuse(body_with(keys)).param, param) << keys;
}

}  // namespace
}  // namespace fovea::serve
