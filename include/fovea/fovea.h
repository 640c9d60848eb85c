// SPDX-License-Identifier: Apache-2.0
// Fovea's public surface: the one header a program includes.
//
//   auto engine = fovea::Engine::load("Qwen3-VL-2B-Instruct");
//   if (!engine) return complain(engine.error().message);
//   auto answer = engine->ask({"photo.jpg"}, "What is on the table?");
//   if (answer) std::cout << answer->text;
//
//   auto sight = fovea::see("photo.jpg", {.plan = "quadtree", .budget_tokens = 96});
//   if (sight) fovea::save_png("seen.png", sight->picture);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/answer.h"
#include "fovea/new_file.h"
#include "fovea/request.h"
#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

const char* version();

// The CPU first, then what the run-time libraries for CUDA and Vulkan find.
std::vector<Device> devices();

// A plan maker and what it promises.
struct PlanKind {
  std::string name;
  std::string description;
};
std::vector<PlanKind> plan_kinds();

// A kind of attention, and which keys a patch or a token sees by it (docs/attention.md).
struct AttentionChoice {
  std::string name;
  std::string description;
  bool of_tower = false;  // AskOptions::tower_attention takes it
  bool of_text = false;   // AskOptions::text_attention does
};
std::vector<AttentionChoice> attention_choices();

// A policy of forgetting, and what it keeps (docs/forgetting.md).
struct ForgetChoice {
  std::string name;
  std::string description;
};
std::vector<ForgetChoice> forget_choices();

// A number format of keys and values (docs/memory.md).
struct KvChoice {
  std::string name;
  std::string description;
};
std::vector<KvChoice> kv_choices();

// What the program refuses or assumes unless told otherwise.
struct Limits {
  int64_t max_pixels = 0;      // larger images are refused
  int max_side_ratio = 0;      // so are longer ones
  int budget_tokens = 0;       // the default budget
  int64_t uniform_pixels = 0;  // the canvas of the uniform plan is shrunk to this
};
Limits limits();

struct SeeOptions {
  std::string plan = "quadtree";  // one of plan_kinds()
  int budget_tokens = -1;         // the most cells; -1: the default (96; level 0 for "uniform")
  std::string question;           // shown in the picture; couples through `coupling`
  std::vector<Point> fixations;  // pixels of the image after EXIF rotation; none: relevance decides
  Map coupling;  // what the question has to do with each place; any grid, may be empty
  std::string balance = "mean";  // of all maps: "mean", "product" or "sum"; or one map alone:
                                 // "coupling", "salience" or "information"
  bool centre_bias = true;       // people look to the middle first
  bool draw = true;              // fill Sight::picture
  int64_t max_pixels = 0;        // refuse larger images; 0: the default limit of 178,956,970
  int threads = 0;               // 0: the cores this process may use
  std::string device = "cpu";    // or one of devices()
};

// Looks at an image without a model: what would the tower be given, and why?
Result<Sight> see(const std::string& path, const SeeOptions& options = {});
Result<Sight> see(std::span<const uint8_t> file_bytes, const SeeOptions& options = {});
Result<Sight> see(Image image, const SeeOptions& options = {});

// Reads a picture, from a file, a pipe or "-" for stdin, as Request::images takes it.
Result<Image> load_image(const std::string& path, int64_t max_pixels = 0);
Result<Image> load_image(std::span<const uint8_t> file_bytes, int64_t max_pixels = 0);

// Reads a picture as a map of any grid, by its lightness: black 0, white 1.
Result<Map> load_map(const std::string& path);

// Reads a plan that `fovea see --json` wrote, from a file or a pipe, for AskOptions::plans.
Result<GivenPlan> load_plan(const std::string& path);

// Files appear whole or not at all, and "-" is stdout, as for save_text.
Status save_png(const std::string& path, const Image& image);
Status save_png(const std::string& path, const Map& map);  // 16-bit gray, one pixel a cell

// The folder of a model: `name` itself where it is a path or a folder that is there, else looked
// for in $FOVEA_MODELS; in ../share/fovea/models and ../models from the program; in models,
// ../share/fovea/models and ../models from the shared library that holds this code, where that is
// not the program (a Python module); and in the source tree.
Result<std::string> find_model(const std::string& name);

struct LoadOptions {
  std::string device = "cpu";    // or one of devices(): "cuda:0", "cuda" for the first
  std::string kernels = "best";  // "portable": those that every device of its kind can run
  std::string weights;  // "f32", "bf16" or "int8"; empty: as the files have them; a GPU has bf16
  int threads = 0;      // 0: the cores this process may use
  // The most that keys and values may take, of all sessions; 0: half of what is free once the
  // weights are there. The CPU's; a device makes room by itself.
  int64_t memory_bytes = 0;
  // Called on the loading thread, with bytes of the files.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress;
};

struct ModelInfo {
  std::string weights;  // the format most of them are kept in
  int64_t parameters = 0;
  int64_t weights_bytes = 0;
  int64_t context_tokens = 0;  // the most a prompt and its answer may hold
};

class Session;
struct Model;
struct SessionState;

// A loaded model. Copies share it, and so do sessions.
class Engine {
 public:
  // `name` as find_model takes it: a Hugging Face checkpoint of Qwen3-VL (docs/weights.md).
  static Result<Engine> load(const std::string& name, const LoadOptions& options = {});

  ModelInfo info() const;
  MemoryUsage memory() const;
  Session session() const;
  // Starts on a question, beside all others that the model has (fovea/request.h).
  Result<Ticket> submit(Request request, Callbacks callbacks = {}) const;
  // Text <-> token ids. `special`: special tokens (<|im_end|>, ...) in the text are tokens, in text
  // that is made they are shown.
  Result<std::vector<int>> tokenize(const std::string& text, bool special = false) const;
  Result<std::string> detokenize(std::span<const int> ids, bool special = true) const;
  // All tokens, for AskOptions::mask.
  Result<TokenTexts> vocabulary() const;
  // One question about some images, which are files, or "-" for stdin.
  Result<Answer> ask(const std::vector<std::string>& images, const std::string& question,
                     const AskOptions& options = {}, const OnText& on_text = nullptr) const;

 private:
  explicit Engine(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  std::shared_ptr<const Model> model_;
};

// Images and what was computed of them. A question costs what no earlier one has paid for: the
// glance stays encoded and read, and so does the longest beginning that two prompts share, up to
// where the look begins that the question decides on. One question at a time.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Images are numbered from 0 in the order they are added.
  Status add(const std::string& path, int64_t max_pixels = 0);
  // `file_bytes` gets the file as it was read, for a caller who shows the picture again: the path
  // may lead to another one by then.
  Status add(const std::string& path, int64_t max_pixels, std::vector<uint8_t>& file_bytes);
  Status add(std::span<const uint8_t> file_bytes, int64_t max_pixels = 0);
  Status add(Image image, int64_t max_pixels = 0);

  // All images, then the question, as one message.
  Result<Answer> ask(const std::string& question, const AskOptions& options = {},
                     const OnText& on_text = nullptr);
  // A conversation that ends with a message of the user, or of a tool.
  Result<Answer> ask(std::span<const Message> messages, const AskOptions& options = {},
                     const OnText& on_text = nullptr);
  // The same beside all other requests of the model (fovea/request.h): `request.images` are added
  // to those of the session, whose numbers go on. The ticket before must be done.
  Result<Ticket> submit(Request request, Callbacks callbacks = {});

 private:
  friend Session session_of(std::shared_ptr<const Model> model);
  explicit Session(std::shared_ptr<SessionState> state);
  std::shared_ptr<SessionState> state_;
};

}  // namespace fovea
