// SPDX-License-Identifier: Apache-2.0
// Finds the files of a set of questions and hands their records on.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/text.h"
#include "eval/random.h"
#include "eval/readers.h"
#include "media/decode.h"

namespace fovea::eval {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Result<std::string> read_file(const std::string& path) {
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!file || fs::is_directory(path, error))
    return bad_input(fmt::format("cannot read {}: is there such a file?", path));
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

Status read_lines(const std::string& path, const std::string& text, Collection& into) {
  Place place{path, 0, 0};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++place.line;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const json record = json::parse(line, nullptr, false);
    if (record.is_discarded()) return place.wrong(fmt::format("not JSON: {}", in_quotes(line)));
    if (auto read = read_record(record, place, into); !read) return read;
  }
  return Done{};
}

Status read_json(const std::string& path, const std::string& text, Collection& into) {
  json whole;
  Place place{path, 0, 0};
  try {
    whole = json::parse(text);
  } catch (const json::parse_error& error) {
    const auto end = static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    place.line = 1 + std::count(text.begin(), text.begin() + end, '\n');
    return place.wrong("not JSON from here on; if each line is a record, name it .jsonl");
  }
  if (!whole.is_array()) return read_record(whole, place, into);
  for (const json& record : whole) {
    ++place.record;
    if (auto read = read_record(record, place, into); !read) return read;
  }
  return Done{};
}

// In a folder, .jsonl files come before .json files, and those before sub-folders: a set that
// holds the same questions in two forms is read once.
void find_files(const fs::path& folder, std::vector<std::string>& files) {
  std::vector<std::string> lines;
  std::vector<std::string> whole;
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string ending = entry.path().extension().string();
    if (entry.path().filename().string().starts_with(".")) continue;
    if (entry.is_directory(error))
      folders.push_back(entry.path());
    else if (ending == ".jsonl")
      lines.push_back(entry.path().string());
    else if (ending == ".json")
      whole.push_back(entry.path().string());
  }
  std::vector<std::string>& found = lines.empty() ? whole : lines;
  std::sort(found.begin(), found.end());
  std::sort(folders.begin(), folders.end());
  files.insert(files.end(), found.begin(), found.end());
  if (found.empty())
    for (const fs::path& inner : folders) find_files(inner, files);
}

}  // namespace

std::string Place::name() const {
  if (line > 0) return fmt::format("{}:{}", file, line);
  return record > 0 ? fmt::format("{}: record {}", file, record) : file;
}

Error Place::wrong(const std::string& what) const {
  return bad_input(fmt::format("{}: {}", name(), what));
}

Result<std::string> Collection::find_image(const std::string& image, const Place& place) const {
  const fs::path folder = fs::path(place.file).parent_path();
  std::vector<fs::path> tried;
  if (!options_.images.empty()) tried.push_back(fs::path(options_.images) / image);
  tried.push_back(folder / image);  // an absolute name stays itself
  tried.push_back(folder / "images" / image);
  std::error_code error;
  for (const fs::path& path : tried)
    if (fs::is_regular_file(path, error)) return path.string();
  return place.wrong(fmt::format("no image {} in {}; give its folder with --images DIR",
                                 in_quotes(image),
                                 options_.images.empty() ? "its folder" : options_.images));
}

Status Collection::add(Question question, const std::string& image, const Place& place) {
  const auto path = find_image(image, place);
  if (!path) return path.error();
  const auto [entry, is_new] = numbers_.emplace(*path, paths_.size());
  if (is_new) paths_.push_back(*path);
  question.picture = entry->second;
  questions_.push_back(std::move(question));
  return Done{};
}

QuestionSet Collection::take() && {
  QuestionSet set;
  set.questions = std::move(questions_);
  set.pictures = paths_.size();
  arrange(set);
  std::vector<std::vector<Box>> evidence(paths_.size());
  for (const Question& question : set.questions)
    evidence[question.picture].insert(evidence[question.picture].end(), question.evidence.begin(),
                                      question.evidence.end());
  set.picture = [paths = std::move(paths_), evidence = std::move(evidence),
                 options = options_](size_t picture) -> Result<Image> {
    auto image = read_image(paths[picture]);
    if (!image) return image.error();
    if (options.honesty == Honesty::kPayload) paint_black(*image, evidence[picture]);
    if (options.honesty == Honesty::kNoise) *image = noise_of(image->size, options.seed + picture);
    return image;
  };
  return set;
}

Result<QuestionSet> read_questions(const DataOptions& options) {
  std::vector<std::string> files;
  std::error_code error;
  if (fs::is_directory(options.path, error))
    find_files(options.path, files);
  else
    files.push_back(options.path);
  if (files.empty())
    return bad_input(fmt::format("--data {}: no .jsonl or .json file in it", options.path));

  Collection collection(options);
  for (const std::string& file : files) {
    const auto text = read_file(file);
    if (!text) return text.error();
    const bool lines = fs::path(file).extension() == ".jsonl";
    auto read = lines ? read_lines(file, *text, collection) : read_json(file, *text, collection);
    if (!read) return read.error();
  }
  QuestionSet set = std::move(collection).take();
  if (set.questions.empty())
    return bad_input(fmt::format("--data {}: no questions in it", options.path));
  const bool evidence = std::any_of(set.questions.begin(), set.questions.end(),
                                    [](const Question& q) { return !q.evidence.empty(); });
  if (options.honesty == Honesty::kPayload && !evidence)
    return bad_input(fmt::format("--honesty payload: {} names no evidence to paint over; try noise",
                                 options.path));
  return set;
}

}  // namespace fovea::eval
