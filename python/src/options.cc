// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "errors.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

// What was given for a keyword, read as one type or another; an error names it.
class Value {
 public:
  Value(std::string name, nb::handle object) : name_(std::move(name)), object_(object) {}

  template <class T>
  T as(const char* kind) const {
    T value{};
    if (!nb::try_cast(object_, value)) {
      PyErr_Clear();
      raise_type(name_ + "=" + shown() + ": give " + kind);
    }
    return value;
  }
  int64_t whole(int64_t least, int64_t most) const {
    const nb::object index = nb::steal(PyNumber_Index(object_.ptr()));
    if (!index.is_valid()) {
      PyErr_Clear();
      raise_type(name_ + "=" + shown() + ": give a whole number");
    }
    int too_large = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(index.ptr(), &too_large);
    if (too_large != 0 || value < least || value > most)
      raise(bad_input(name_ + "=" + shown() + ": give a whole number from " +
                      std::to_string(least) + " to " + std::to_string(most)));
    return value;
  }
  int count(int64_t least) const {
    return static_cast<int>(whole(least, std::numeric_limits<int>::max()));
  }
  uint64_t seed() const {
    const uint64_t value = PyLong_AsUnsignedLongLong(object_.ptr());
    if (PyErr_Occurred() == nullptr) return value;
    PyErr_Clear();
    raise(bad_input(name_ + "=" + shown() + ": give a whole number from 0 to 2**64 - 1"));
  }
  double number() const { return as<double>("a number"); }
  bool flag() const { return as<bool>("True or False"); }
  std::string text() const { return as<std::string>("a text"); }
  std::vector<std::string> texts() const { return as<std::vector<std::string>>("a list of texts"); }
  nb::handle object() const { return object_; }

 private:
  std::string shown() const { return nb::cast<std::string>(nb::repr(object_)); }

  std::string name_;
  nb::handle object_;
};

// A list of lists of pairs: the points of each image.
std::vector<Point> points_of(const Value& value) {
  std::vector<Point> points;
  for (const auto& [x, y] : value.as<std::vector<std::pair<double, double>>>("pairs of numbers"))
    points.push_back({x, y});
  return points;
}

Map map_of(nb::handle object) {
  const auto scores =
      nb::cast<nb::ndarray<const uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(object);
  Map map(Grid{static_cast<int>(scores.shape(0)), static_cast<int>(scores.shape(1))});
  std::copy(scores.data(), scores.data() + scores.size(), map.score.begin());
  return map;
}

// A path, or (maker, cells, canvas).
GivenPlan plan_of(nb::handle object) {
  if (nb::isinstance<nb::str>(object)) {
    const auto path = nb::cast<std::string>(object);
    auto read = load_plan(path);
    if (!read)
      raise({read.error().kind, "plan=" + path + ": " + read.error().message +
                                    "; give the name of a plan maker, a Plan, or a file that "
                                    "`fovea see --json FILE` wrote"});
    return *std::move(read);
  }
  const auto parts = nb::cast<nb::tuple>(object);
  const auto cells =
      nb::cast<nb::ndarray<const int32_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>>(
          parts[1]);
  GivenPlan plan;
  plan.maker = nb::cast<std::string>(parts[0]);
  for (size_t i = 0; i < cells.shape(0); ++i) {
    const int32_t* const cell = cells.data() + i * 3;
    plan.cells.push_back({cell[0], cell[1], cell[2]});
  }
  const auto [width, height] = nb::cast<std::pair<int, int>>(parts[2]);
  plan.canvas = {width, height};
  return plan;
}

std::vector<TokenBias> biases_of(const Value& value) {
  std::vector<TokenBias> biases;
  for (const auto& [id, bias] :
       value.as<std::vector<std::pair<int, double>>>("a dict of token ids and numbers"))
    biases.push_back({id, static_cast<float>(bias)});
  return biases;
}

std::chrono::steady_clock::time_point deadline_of(const Value& value) {
  const double seconds = value.number();
  if (!(seconds >= 0)) raise(bad_input("deadline: give the seconds from now, 0 or more"));
  const auto now = std::chrono::steady_clock::now();
  constexpr double kMost = 1e9;  // beyond that a clock may overflow
  if (seconds > kMost) return std::chrono::steady_clock::time_point::max();
  return now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                   std::chrono::duration<double>(seconds));
}

constexpr int64_t kMostBudget = 1 << 30;
constexpr int64_t kMostPixels = int64_t{1} << 40;

using Ask = AskKeywords;
struct AskKeyword {
  const char* name;
  void (*set)(Ask& ask, const Value& value);
};

// The names are those of `fovea ask`, with _ for -, and of AskOptions where that has no flag.
const AskKeyword kAskKeywords[] = {
    {"plan", [](Ask& a, const Value& v) { a.options.plan = v.text(); }},
    {"plans",
     [](Ask& a, const Value& v) {
       for (const nb::handle plan : nb::cast<nb::list>(v.object()))
         a.options.plans.push_back(plan_of(plan));
       bool all_uniform = true;
       for (const GivenPlan& plan : a.options.plans)
         all_uniform = all_uniform && plan.maker == "uniform";
       a.options.plan = all_uniform ? "uniform" : "glance+look";  // for the canvas
     }},
    {"budget",
     [](Ask& a, const Value& v) {
       a.options.budget_tokens = static_cast<int>(v.whole(1, kMostBudget));
     }},
    {"looks", [](Ask& a, const Value& v) { a.options.looks = v.count(1); }},
    {"fixation",
     [](Ask& a, const Value& v) {
       for (const nb::handle points : nb::cast<nb::list>(v.object()))
         a.options.fixations.push_back(points_of({"fixation", points}));
     }},
    {"coupling",
     [](Ask& a, const Value& v) {
       for (const nb::handle map : nb::cast<nb::list>(v.object()))
         a.options.coupling.push_back(map.is_none() ? Map() : map_of(map));
     }},
    {"balance", [](Ask& a, const Value& v) { a.options.balance = v.text(); }},
    {"look", [](Ask& a, const Value& v) { a.options.look = v.text(); }},
    {"sure", [](Ask& a, const Value& v) { a.options.sure = v.number(); }},
    {"relook", [](Ask& a, const Value& v) { a.options.relook = v.number(); }},
    {"size_bias", [](Ask& a, const Value& v) { a.options.size_bias = v.flag(); }},
    {"attention", [](Ask& a, const Value& v) { a.options.tower_attention = v.text(); }},
    {"attention_text", [](Ask& a, const Value& v) { a.options.text_attention = v.text(); }},
    {"keep", [](Ask& a, const Value& v) { a.options.keep = v.number(); }},
    {"forget", [](Ask& a, const Value& v) { a.options.forget = v.text(); }},
    {"kv", [](Ask& a, const Value& v) { a.options.kv = v.text(); }},
    {"drop_looks", [](Ask& a, const Value& v) { a.options.keep_looks = !v.flag(); }},
    {"max_tokens", [](Ask& a, const Value& v) { a.options.max_tokens = v.count(1); }},
    {"temperature", [](Ask& a, const Value& v) { a.options.temperature = v.number(); }},
    {"top_k", [](Ask& a, const Value& v) { a.options.top_k = v.count(0); }},
    {"top_p", [](Ask& a, const Value& v) { a.options.top_p = v.number(); }},
    {"min_p", [](Ask& a, const Value& v) { a.options.min_p = v.number(); }},
    {"repetition_penalty",
     [](Ask& a, const Value& v) { a.options.repetition_penalty = v.number(); }},
    {"frequency_penalty", [](Ask& a, const Value& v) { a.options.frequency_penalty = v.number(); }},
    {"presence_penalty", [](Ask& a, const Value& v) { a.options.presence_penalty = v.number(); }},
    {"logit_bias", [](Ask& a, const Value& v) { a.options.logit_bias = biases_of(v); }},
    {"least_tokens", [](Ask& a, const Value& v) { a.options.least_tokens = v.count(0); }},
    {"mask",
     [](Ask& a, const Value& v) {
       a.mask = std::make_shared<SharedObject>(nb::borrow(v.object()));
     }},
    {"seed", [](Ask& a, const Value& v) { a.options.seed = v.seed(); }},
    {"answers", [](Ask& a, const Value& v) { a.options.answers = v.count(1); }},
    {"ignore_end", [](Ask& a, const Value& v) { a.options.ignore_end = v.flag(); }},
    {"stop", [](Ask& a, const Value& v) { a.options.stop = v.texts(); }},
    {"system", [](Ask& a, const Value& v) { a.options.system = v.text(); }},
    {"tools", [](Ask& a, const Value& v) { a.options.tools = v.text(); }},
    {"enable_thinking", [](Ask& a, const Value& v) { a.options.enable_thinking = v.flag(); }},
    {"allow_special", [](Ask& a, const Value& v) { a.options.allow_special = v.flag(); }},
    {"share", [](Ask& a, const Value& v) { a.options.share = v.flag(); }},
    {"salt", [](Ask& a, const Value& v) { a.options.salt = v.text(); }},
    {"logprobs", [](Ask& a, const Value& v) { a.options.likely_tokens = v.count(0); }},
    {"trace",
     [](Ask& a, const Value& v) { a.options.attention = a.options.answer_attention = v.flag(); }},
    {"gaze", [](Ask& a, const Value& v) { a.options.draw = v.flag(); }},
    {"logits", [](Ask& a, const Value& v) { a.logits = v.flag(); }},
    {"max_pixels", [](Ask& a, const Value& v) { a.max_pixels = v.whole(1, kMostPixels); }},
    {"priority",
     [](Ask& a, const Value& v) { a.priority = static_cast<int>(v.whole(-1'000'000, 1'000'000)); }},
    {"deadline", [](Ask& a, const Value& v) { a.deadline = deadline_of(v); }},
};

using See = SeeKeywords;
struct SeeKeyword {
  const char* name;
  void (*set)(See& see, const Value& value);
};

const SeeKeyword kSeeKeywords[] = {
    {"plan", [](See& s, const Value& v) { s.options.plan = v.text(); }},
    {"plans", [](See& s, const Value& v) { s.plan = plan_of(nb::cast<nb::list>(v.object())[0]); }},
    {"budget",
     [](See& s, const Value& v) {
       s.options.budget_tokens = static_cast<int>(v.whole(1, kMostBudget));
     }},
    {"question", [](See& s, const Value& v) { s.options.question = v.text(); }},
    {"fixation", [](See& s, const Value& v) { s.options.fixations = points_of(v); }},
    {"coupling", [](See& s, const Value& v) { s.options.coupling = map_of(v.object()); }},
    {"balance", [](See& s, const Value& v) { s.options.balance = v.text(); }},
    {"centre_bias", [](See& s, const Value& v) { s.options.centre_bias = v.flag(); }},
    {"draw", [](See& s, const Value& v) { s.options.draw = v.flag(); }},
    {"max_pixels", [](See& s, const Value& v) { s.options.max_pixels = v.whole(1, kMostPixels); }},
    {"threads",
     [](See& s, const Value& v) { s.options.threads = static_cast<int>(v.whole(0, 1024)); }},
    {"device", [](See& s, const Value& v) { s.options.device = v.text(); }},
};

// None stands for the default everywhere.
template <class Made, class Table>
Made read(const nb::dict& keywords, const Table& table) {
  Made made;
  for (const auto& [key, object] : keywords) {
    const auto name = nb::cast<std::string>(key);
    const auto found = std::find_if(std::begin(table), std::end(table),
                                    [&](const auto& keyword) { return name == keyword.name; });
    if (found == std::end(table)) raise_type("there is no keyword '" + name + "'");
    if (!object.is_none()) found->set(made, Value(name, object));
  }
  return made;
}

}  // namespace

AskKeywords ask_keywords(const nb::dict& keywords) {
  return read<AskKeywords>(keywords, kAskKeywords);
}

SeeKeywords see_keywords(const nb::dict& keywords) {
  return read<SeeKeywords>(keywords, kSeeKeywords);
}

std::vector<Message> messages_of(const nb::list& messages) {
  std::vector<Message> made;
  for (const nb::handle object : messages) {
    const auto fields = nb::cast<nb::tuple>(object);
    Message message;
    message.role = Value("role", fields[0]).text();
    for (const nb::handle part : nb::cast<nb::list>(fields[1])) {
      if (nb::isinstance<nb::str>(part))
        message.parts.push_back({-1, Value("question", part).text()});
      else
        message.parts.push_back({Value("an image", part).count(0), ""});
    }
    message.tool_calls = Value("tool_calls", fields[2]).text();
    made.push_back(std::move(message));
  }
  return made;
}

}  // namespace fovea::python
