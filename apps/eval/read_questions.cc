// SPDX-License-Identifier: Apache-2.0
// Finds the files of a set of questions and hands their records on.
#include <fmt/format.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/list_folder.h"
#include "base/read_file.h"
#include "base/text.h"
#include "eval/random.h"
#include "eval/readers.h"
#include "media/decode.h"

namespace fovea::eval {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMostFileBytes = int64_t{2} << 30;
constexpr size_t kMostValueBytes = size_t{4} << 30;  // of a list; a line has parse_json's limit
constexpr size_t kMostFamilies = 1000;               // each is a column of the table

// A folder, however it was reached: by its own name or by links.
using FolderId = std::pair<dev_t, ino_t>;

// Finds the files of a folder.
class Finder {
 public:
  // .jsonl files come before .json files, and those before sub-folders: a set that holds the same
  // questions in two forms is read once. No folder is visited twice, so that links may form rings.
  Status visit(const fs::path& folder) {
    struct stat status {};
    if (stat(folder.c_str(), &status) != 0) return wrong(folder, errno);
    if (!visited_.insert({status.st_dev, status.st_ino}).second) return Done{};
    std::vector<std::string> lines;
    std::vector<std::string> whole;
    std::vector<fs::path> folders;
    std::error_code error;
    for (const std::string& name : list_folder(folder.string(), error)) {
      if (name.starts_with('.')) continue;
      const fs::path path = folder / name;
      std::error_code ignored;  // of an entry: it is no folder then
      if (fs::is_directory(path, ignored))
        folders.push_back(path);
      else if (path.extension() == ".jsonl")
        lines.push_back(path.string());
      else if (path.extension() == ".json")
        whole.push_back(path.string());
    }
    if (error) return wrong(folder, error.value());
    std::vector<std::string>& found = lines.empty() ? whole : lines;
    std::sort(found.begin(), found.end());
    std::sort(folders.begin(), folders.end());
    files_.insert(files_.end(), found.begin(), found.end());
    for (size_t i = 0; found.empty() && i < folders.size(); ++i)
      if (auto inner = visit(folders[i]); !inner) return inner;
    return Done{};
  }

  const std::vector<std::string>& files() const { return files_; }

 private:
  static Error wrong(const fs::path& folder, int code) {
    return error_of_reading(code, fmt::format("--data: cannot read the folder {}: {}",
                                              folder.string(), std::strerror(code)));
  }

  std::set<FolderId> visited_;
  std::vector<std::string> files_;
};

// A name that stays in the folder it is looked for in: data that somebody else made must not have
// other files of this machine read.
bool stays_inside(const std::string& image) {
  const fs::path path(image);
  if (path.is_absolute() || image.find('\0') != std::string::npos) return false;
  return std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

// What is to be painted over must lie in the image (by a pixel: edges are rounded); else nothing
// would be hidden, and the test of honesty would pass as if it were.
Status check_boxes(const std::string& path, Size size, const std::vector<Box>& boxes) {
  for (const Box& box : boxes)
    if (box.x0_px < -1 || box.y0_px < -1 || box.x1_px > size.width_px + 1 ||
        box.y1_px > size.height_px + 1)
      return bad_input(fmt::format(
          "--honesty payload: the evidence [{},{},{},{}] lies outside of {}, which has "
          "{}x{} px",
          box.x0_px, box.y0_px, box.x1_px, box.y1_px, path, size.width_px, size.height_px));
  return Done{};
}

}  // namespace

std::string Place::name() const {
  if (line > 0) return fmt::format("{}:{}", file, line);
  return record > 0 ? fmt::format("{}: record {}", file, record) : file;
}

Error Place::wrong(const std::string& what) const {
  return bad_input(fmt::format("{}: {}", name(), what));
}

Status read_lines(const std::string& path, std::string_view text, Collection& into) {
  Place place{path, 0, 0};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++place.line;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto record = parse_json(line);
    if (!record) return place.wrong(record.error().message);
    if (auto read = read_record(*record, place, into); !read) return read;
  }
  return Done{};
}

Status read_json(const std::string& path, std::string_view text, Collection& into) {
  Place place{path, 0, 0};
  size_t fault_byte = 0;
  const auto whole = parse_json(text, kMostValueBytes, &fault_byte);
  if (!whole) {
    if (fault_byte > 0) place.line = 1 + std::ranges::count(text.substr(0, fault_byte), '\n');
    return place.wrong(whole.error().message + "; if each line is a record, name it .jsonl");
  }
  if (!whole->is_array()) return read_record(*whole, place, into);
  for (const json& record : *whole) {
    ++place.record;
    if (auto read = read_record(record, place, into); !read) return read;
  }
  return Done{};
}

Result<std::string> Collection::find_image(const std::string& image, const Place& place) const {
  if (!stays_inside(image))
    return place.wrong(fmt::format(
        "the image {} is no name in a folder; give one without .. and without a leading /, and its "
        "folder with --images DIR",
        in_quotes(image)));
  const fs::path folder = fs::path(place.file).parent_path();
  std::vector<fs::path> tried;
  if (!options_.images.empty()) tried.push_back(fs::path(options_.images) / image);
  tried.push_back(folder / image);
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
    if (options.honesty == Honesty::kPayload) {
      if (auto good = check_boxes(paths[picture], image->size, evidence[picture]); !good)
        return good.error();
      paint_black(*image, evidence[picture]);
    }
    if (options.honesty == Honesty::kNoise) *image = noise_of(image->size, options.seed + picture);
    return image;
  };
  return set;
}

Result<QuestionSet> read_questions(const DataOptions& options) {
  std::vector<std::string> files = {options.path};
  std::error_code error;
  const bool is_folder = fs::is_directory(options.path, error);
  if (is_folder) {
    Finder finder;
    if (auto visited = finder.visit(options.path); !visited) return visited.error();
    files = finder.files();
  }
  if (files.empty())
    return bad_input(fmt::format("--data {}: no .jsonl or .json file in it", options.path));

  Collection collection(options);
  for (const std::string& file : files) {
    const auto text = read_file(file, kMostFileBytes, is_folder ? Takes::kFiles : Takes::kPipes);
    if (!text) return text.error();
    const bool lines = fs::path(file).extension() == ".jsonl";
    auto read = lines ? read_lines(file, *text, collection) : read_json(file, *text, collection);
    if (!read) return read.error();
  }
  QuestionSet set = std::move(collection).take();
  if (set.questions.empty())
    return bad_input(fmt::format("--data {}: no questions in it", options.path));
  if (set.families.size() > kMostFamilies)
    return bad_input(
        fmt::format("--data {}: {} families; there may be {}, each a column of the "
                    "table",
                    options.path, with_commas(static_cast<int64_t>(set.families.size())),
                    with_commas(int64_t{kMostFamilies})));
  const bool evidence = std::any_of(set.questions.begin(), set.questions.end(),
                                    [](const Question& q) { return !q.evidence.empty(); });
  if (options.honesty == Honesty::kPayload && !evidence)
    return bad_input(fmt::format("--honesty payload: {} names no evidence to paint over; try noise",
                                 options.path));
  return set;
}

}  // namespace fovea::eval
