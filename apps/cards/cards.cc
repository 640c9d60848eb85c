// SPDX-License-Identifier: Apache-2.0
// fovea cards: writes scenes of CardField and questions about them (docs/cards.md).
#include "cards/cards.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/list_folder.h"
#include "base/read_file.h"
#include "base/threads.h"
#include "base/write_file.h"
#include "fovea/command.h"
#include "media/decode.h"
#include "media/encode_png.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPhotos = 64;  // all of them are kept in memory

struct Flags {
  Common common;
  int count = 0;
  std::string folder;
  std::string size = "1024";
  std::string cards = "24";
  std::string payload = "10..13";
  int questions = 8;
  std::vector<std::string> families;
  std::string photos;
  bool blank_payloads = false;
};

// What to write, checked.
struct Task {
  CardOptions options;
  std::vector<Family> families;
  std::vector<Image> photos;
};

// "24" or "8..48" -> both ends; `between` stands between two numbers.
std::optional<std::pair<int, int>> parse_pair(const std::string& text, std::string_view between) {
  const auto number = [](std::string_view digits) -> std::optional<int> {
    int value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && stopped == end ? std::optional(value) : std::nullopt;
  };
  const std::string_view all = text;
  const size_t place = all.find(between);
  const auto first = number(all.substr(0, place));
  const auto second =
      place == std::string_view::npos ? first : number(all.substr(place + between.size()));
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

bool names_a_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png" || ending == ".webp";
}

Result<std::vector<Image>> read_photos(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (const std::string& name : list_folder(folder, error)) {
    fs::path path = fs::path(folder) / name;
    std::error_code ignored;  // of an entry: it is no file then
    if (names_a_picture(path) && fs::is_regular_file(path, ignored))
      paths.push_back(std::move(path));
  }
  if (error || paths.empty())
    return error_of_reading(
        error.value(),
        fmt::format("--photos {}: {}; give a folder with .jpg, .png or .webp pictures", folder,
                    error ? error.message() : "no pictures in it"));
  std::sort(paths.begin(), paths.end());
  paths.resize(std::min(paths.size(), kMostPhotos));
  std::vector<Image> photos;
  for (const fs::path& path : paths) {
    auto photo = read_image(path.string());
    if (!photo) return photo.error();
    photos.push_back(*std::move(photo));
  }
  return photos;
}

Result<Task> make_task(const Flags& flags) {
  const auto size = parse_pair(flags.size, "x");
  if (!size) return bad_input(fmt::format("--size '{}': give 1024, or 1280x720", flags.size));
  const auto cards = parse_pair(flags.cards, "..");
  if (!cards) return bad_input(fmt::format("--cards '{}': give 24, or 8..48", flags.cards));
  const auto payload = parse_pair(flags.payload, "..");
  if (!payload) return bad_input(fmt::format("--payload '{}': give 12, or 10..13", flags.payload));
  Task task;
  task.options = {.size = {size->first, size->second},
                  .cards_min = cards->first,
                  .cards_max = cards->second,
                  .payload_min_px = payload->first,
                  .payload_max_px = payload->second,
                  .blank_payloads = flags.blank_payloads};
  const auto good = check_card_options(task.options);
  if (!good) return good.error();
  for (const std::string& name : flags.families) {
    const auto family = family_of(name);
    if (!family) {
      std::string known;
      for (const Family each : kAllFamilies)
        known += (known.empty() ? "" : ", ") + std::string(family_name(each));
      return bad_input(fmt::format("--families '{}': there is {}", name, known));
    }
    task.families.push_back(*family);
  }
  if (task.families.empty()) task.families.assign(kAllFamilies.begin(), kAllFamilies.end());
  if (flags.photos.empty()) return task;
  auto photos = read_photos(flags.photos);
  if (!photos) return photos.error();
  task.photos = *std::move(photos);
  return task;
}

// One line a question, as LLaVA's data has it, with what else is known.
std::string lines_of(const CardScene& scene, const std::vector<CardQuestion>& questions,
                     const std::string& name) {
  std::string lines;
  int number = 0;
  for (const CardQuestion& question : questions) {
    nlohmann::ordered_json line = nlohmann::ordered_json::object();
    line["id"] = fmt::format("{}-{}", name, number++);
    line["image"] = fmt::format("images/{}.png", name);
    line["conversations"] = {{{"from", "human"}, {"value", "<image>\n" + question.text}},
                             {{"from", "gpt"}, {"value", question.answer}}};
    line["family"] = family_name(question.family);
    line["payload_px"] = question.payload_px;
    line["evidence"] = nlohmann::json::array();
    for (const int card : question.evidence) {
      const CardBox& box = scene.cards[static_cast<size_t>(card)].payload_box;
      line["evidence"].push_back({box.x0, box.y0, box.x1, box.y1});
    }
    lines += line.dump() + "\n";
  }
  return lines;
}

// Ends the work between two scenes. A second signal ends the program.
class StopOnSignal {
 public:
  StopOnSignal() {
    struct sigaction once {};
    once.sa_handler = [](int signal) { received_ = signal; };
    once.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    for (const int signal : {SIGINT, SIGTERM}) {
      struct sigaction old {};
      sigaction(signal, nullptr, &old);
      if (old.sa_handler != SIG_IGN) sigaction(signal, &once, nullptr);  // as nohup wants it
    }
  }
  static int received() { return received_; }  // 0: none

 private:
  static inline std::atomic<int> received_ = 0;
  static_assert(std::atomic<int>::is_always_lock_free);
};

Result<std::string> write_scene(const Flags& flags, const Task& task, int index) {
  CardOptions options = task.options;
  options.photos = task.photos;
  const uint64_t seed = flags.common.seed + static_cast<uint64_t>(index);
  const CardScene scene = make_scene(seed, options);
  const std::string name = fmt::format("{:06}", index);
  const auto written =
      write_png((fs::path(flags.folder) / "images" / (name + ".png")).string(), scene.image);
  if (!written) return written.error();
  return lines_of(scene, make_questions(scene, seed, task.families, flags.questions), name);
}

// Questions about the pictures that are being replaced go with them.
void remove_old(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  if (!error && fs::is_regular_file(target, error)) fs::remove(target, error);
}

// Scenes in batches, so that lines are written in order and progress shows.
Status write_all_scenes(const Flags& flags, const Task& task, const std::string& path,
                        NewFile& file) {
  Threads threads(flags.common.threads > 0 ? flags.common.threads : usable_cores());
  const bool show = isatty(STDERR_FILENO) != 0 && !flags.common.quiet;
  // The first alone: where not even that can be written, older questions stay.
  int batch = 1;
  for (int done = 0; done < flags.count && StopOnSignal::received() == 0;) {
    const int now = std::min(batch, flags.count - done);
    std::vector<Result<std::string>> lines(static_cast<size_t>(now), std::string());
    threads.for_each(now, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && StopOnSignal::received() == 0; ++i)
        lines[static_cast<size_t>(i)] = write_scene(flags, task, done + static_cast<int>(i));
    });
    for (const Result<std::string>& line : lines) {
      if (!line) return line.error();
      if (auto written = file.write(*line); !written) return written;
    }
    if (done == 0 && !lines.front()->empty()) remove_old(path);
    batch = 4 * threads.size();
    done += now;
    if (show) tell("\r\033[K{} of {} scenes", done, flags.count);
  }
  if (show) tell("\r\033[K");
  return Done{};
}

// The folder, locked against another `fovea cards` until the descriptor is closed.
Result<int> open_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder) / "images", error);
  const int fd = error ? -1 : ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    if (!error) error.assign(errno, std::generic_category());
    return Error(cannot_write(folder, error.value()).kind,
                 fmt::format("-o {}: cannot write a folder there: {}", folder, error.message()));
  }
  if (lock_alone(fd)) return fd;
  ::close(fd);
  return bad_input(fmt::format(
      "-o {}: another fovea cards writes there; wait for that one, or give another folder",
      folder));
}

int run(const Flags& flags) {
  const auto device = check_cpu(flags.common.device);
  if (!device) return complain(device.error());
  const auto task = make_task(flags);
  if (!task) return complain(task.error());
  const auto folder = open_folder(flags.folder);
  if (!folder) return complain(folder.error());
  const std::string path = (fs::path(flags.folder) / "questions.jsonl").string();
  auto file = NewFile::create(path);
  if (!file) return complain(file.error());
  const StopOnSignal stop;
  const auto written = write_all_scenes(flags, *task, path, *file);
  if (!written) return complain(written.error());
  if (const int signal = StopOnSignal::received(); signal != 0) return 128 + signal;
  if (const auto whole = file->commit(); !whole) return complain(whole.error());
  ::close(*folder);
  note(flags.common, fmt::format("{} scenes, {} questions in {}", flags.count,
                                 int64_t{flags.count} * flags.questions, path));
  return kGood;
}

}  // namespace

Run add_cards(CLI::App& program) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = program.add_subcommand(
      "cards", "Make scenes and questions that measure looking, from a seed");
  command->add_option("-n,--count", flags->count, "Scenes")
      ->required()
      ->check(whole_number(1, 1'000'000));
  command->add_option("-o,--output", flags->folder, "Folder for images/ and questions.jsonl")
      ->required()
      ->check(folder_path());
  command->add_option("--size", flags->size, "Pixels, 512..2048: a side, or WxH")
      ->capture_default_str();
  command->add_option("--cards", flags->cards, "Cards of a scene, 8..48: a number or a range")
      ->capture_default_str();
  command->add_option("--payload", flags->payload, "Payload height in px, 8..24, likewise")
      ->capture_default_str();
  command->add_option("--questions", flags->questions, "Questions about each scene")
      ->capture_default_str()
      ->check(whole_number(1, 10'000));
  command
      ->add_option("--families", flags->families,
                   "read, find, count, exist, same, gap, follow, ticks (default: all)")
      ->delimiter(',');
  command->add_option("--photos", flags->photos, "A folder of pictures for the backgrounds");
  command->add_flag("--blank-payloads", flags->blank_payloads,
                    "Black out the payloads: nothing is left to read");
  add_common(*command, flags->common);
  command->footer(
      "Examples:\n"
      "  fovea cards --seed 7 --count 100 -o cards\n"
      "  fovea cards --count 10 --size 2048 --cards 8..48 --families read,count -o cards");
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
