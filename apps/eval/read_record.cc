// SPDX-License-Identifier: Apache-2.0
// One record of a question file: LLaVA's conversations, LLaVA's evaluation form, or V*'s.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "eval/random.h"
#include "eval/readers.h"

namespace fovea::eval {
namespace {

using nlohmann::json;

// Text of a field, numbers as they are written; empty where it is not there.
std::string text_of(const json& record, const char* key) {
  const auto found = record.find(key);
  if (found == record.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_number() ? json_text(*found) : "";
}

std::string first_text(const json& record, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (std::string text = text_of(record, key); !text.empty()) return text;
  return "";
}

// Without LLaVA's mark for the image and the white space around.
std::string without_mark(const std::string& with_marks) {
  constexpr std::string_view kMark = "<image>";
  std::string text;
  for (const char c : with_marks) {
    text += c;
    // What is left may join to a mark again: that goes too.
    if (text.ends_with(kMark)) text.resize(text.size() - kMark.size());
  }
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// `sized`: the last two numbers are width and height instead of the far corner.
Status read_boxes(const json& record, const char* key, bool sized, const Place& place,
                  std::vector<Box>& boxes) {
  const auto found = record.find(key);
  if (found == record.end() || found->is_null()) return Done{};
  const Error wrong =
      place.wrong(fmt::format("\"{}\" must be a list of [{}] in pixels of the image", key,
                              sized ? "x,y,width,height" : "x0,y0,x1,y1"));
  if (!found->is_array()) return wrong;
  for (const json& item : *found) {
    if (!item.is_array() || item.size() != 4) return wrong;
    double value[4];
    for (size_t i = 0; i < 4; ++i) {
      if (!item[i].is_number()) return wrong;
      value[i] = item[i].get<double>();
      if (!std::isfinite(value[i]) || std::abs(value[i]) > 1e9) return wrong;
    }
    Box box{value[0], value[1], value[2], value[3]};
    if (sized) box = {value[0], value[1], value[0] + value[2], value[1] + value[3]};
    if (box.x1_px <= box.x0_px || box.y1_px <= box.y0_px) return wrong;
    boxes.push_back(box);
  }
  return Done{};
}

// The fields that every form may have.
Status read_common(const json& record, const Place& place, Question& question) {
  const std::filesystem::path file(place.file);
  question.id = first_text(record, {"question_id", "id"});
  if (question.id.empty())  // the same wherever the folder stands
    question.id =
        (file.parent_path().filename() / Place{file.filename(), place.line, place.record}.name())
            .string();
  question.family = first_text(record, {"family", "category"});
  if (question.family.empty()) question.family = file.stem().string();
  if (const auto payload = record.find("payload_px"); payload != record.end()) {
    if (!payload->is_number_integer() || *payload < 0 || *payload > 100000)
      return place.wrong("\"payload_px\" must be a height in pixels, 0 to 100000");
    question.payload_px = payload->get<int>();
  }
  return read_boxes(record, "evidence", false, place, question.evidence);
}

Result<std::string> image_of(const json& record, const Place& place) {
  auto found = record.find("image");
  if (found == record.end()) return place.wrong("no \"image\"");
  if (found->is_array() && found->size() != 1)
    return place.wrong(fmt::format("{} images; questions about one image are read", found->size()));
  const json& image = found->is_array() ? found->front() : *found;
  if (!image.is_string() || image.get_ref<const std::string&>().empty())
    return place.wrong("\"image\" must be the name of a file");
  return image.get<std::string>();
}

// A right answer that is the letter of an option in the text makes a multiple choice of it.
void set_answer(Question& question, std::string answer) {
  std::vector<std::string> options = options_in(question.text);
  const int letter = answer.size() == 1 ? answer[0] - 'A' : -1;
  if (letter >= 0 && letter < static_cast<int>(options.size())) {
    question.options = std::move(options);
    question.right_option = letter;
  } else {
    question.answers = {std::move(answer)};
  }
}

Status read_conversation(const json& record, const Place& place, Collection& into) {
  const json& messages = record["conversations"];
  const auto image = image_of(record, place);
  if (!image) return image.error();
  if (!messages.is_array() || messages.empty())
    return place.wrong("\"conversations\" must be a list of messages");
  Question question;
  if (auto common = read_common(record, place, question); !common) return common;
  std::string asked;
  int pairs = 0;
  for (const json& message : messages) {
    if (!message.is_object()) return place.wrong("a message must be {\"from\":...,\"value\":...}");
    const std::string from = text_of(message, "from");
    if (from == "human" || from == "user") {
      asked = without_mark(text_of(message, "value"));
      if (asked.empty()) return place.wrong("a message of the human has no text");
    } else if (from == "gpt" || from == "assistant") {
      const std::string answer = without_mark(text_of(message, "value"));
      if (asked.empty() || answer.empty())
        return place.wrong("an answer is empty, or has no question before it");
      Question one = question;
      one.text = std::exchange(asked, "");
      if (++pairs > 1) one.id += fmt::format("/{}", pairs);
      set_answer(one, answer);
      if (auto added = into.add(std::move(one), *image, place); !added) return added;
    } else if (from != "system") {
      return place.wrong(
          fmt::format("a message is from {}; known are human and gpt", in_quotes(from)));
    }
  }
  if (pairs == 0 || !asked.empty()) return place.wrong("a question has no answer of gpt");
  return Done{};
}

Status read_plain(const json& record, const Place& place, Collection& into) {
  const auto image = image_of(record, place);
  if (!image) return image.error();
  Question question;
  if (auto common = read_common(record, place, question); !common) return common;
  question.text = without_mark(first_text(record, {"text", "question"}));
  if (question.text.empty()) return place.wrong("the question has no text");
  std::string answer = without_mark(first_text(record, {"answer", "label"}));
  if (answer.empty()) return place.wrong("no \"answer\" or \"label\" to compare with");
  set_answer(question, std::move(answer));
  return into.add(std::move(question), *image, place);
}

// V*: the image has the name of the file, its folder is the family, the first option is right.
Status read_choice(const json& record, const Place& place, Collection& into) {
  const std::filesystem::path file(place.file);
  Question question;
  if (auto common = read_common(record, place, question); !common) return common;
  if (first_text(record, {"family", "category"}).empty()) {
    std::error_code error;
    question.family = std::filesystem::absolute(file, error).parent_path().filename().string();
  }
  if (auto boxes = read_boxes(record, "bbox", true, place, question.evidence); !boxes) return boxes;
  question.text = without_mark(text_of(record, "question"));
  if (question.text.empty()) return place.wrong("the question has no text");
  std::vector<std::string> options;
  if (record["options"].is_array())
    for (const json& option : record["options"])
      if (option.is_string() && !option.get_ref<const std::string&>().empty())
        options.push_back(option.get<std::string>());
  if (options.size() != record["options"].size() || options.size() < 2 || options.size() > 26)
    return place.wrong("\"options\" must be a list of 2 to 26 texts, the right one first");
  ask_options(question, std::move(options), into.options().seed ^ hash_text(question.id));

  if (record.contains("image")) {
    const auto image = image_of(record, place);
    return image ? into.add(std::move(question), *image, place) : Status(image.error());
  }
  for (const char* ending : {".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG"}) {
    const std::filesystem::path image = std::filesystem::path(file).replace_extension(ending);
    std::error_code error;
    if (std::filesystem::is_regular_file(image, error))
      return into.add(std::move(question), image.filename().string(), place);
  }
  return place.wrong("no image of the same name beside it (.jpg, .jpeg, .png or .webp)");
}

}  // namespace

std::vector<std::string> options_in(const std::string& text) {
  std::vector<std::string> options;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t letter = line.starts_with('(') ? 1 : 0;
    if (line.size() < letter + 3 || line[letter] != static_cast<char>('A' + options.size()) ||
        (line[letter + 1] != ')' && (letter == 1 || line[letter + 1] != '.')))
      continue;
    options.push_back(without_mark(line.substr(letter + 2)));
  }
  return options.size() < 2 ? std::vector<std::string>() : options;
}

Status read_record(const json& record, const Place& place, Collection& into) {
  if (!record.is_object()) return place.wrong("not a JSON object");
  if (record.contains("conversations")) return read_conversation(record, place, into);
  if (record.contains("question") && record.contains("options"))
    return read_choice(record, place, into);
  if (record.contains("text") || record.contains("question"))
    return read_plain(record, place, into);
  return place.wrong(
      "no question: expected \"conversations\", \"text\" or \"question\" (docs/eval.md)");
}

}  // namespace fovea::eval
