// SPDX-License-Identifier: Apache-2.0
// Any text as a file of --data: as lines, and as one JSON value. One image is there, a.png.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/check.h"
#include "eval/readers.h"

namespace {

using fovea::eval::Collection;
using fovea::eval::Question;

// Removed with the image at the end.
struct Folder {
  std::string path = "/tmp/fovea-fuzz-XXXXXX";
  Folder() {
    FOVEA_CHECK(mkdtemp(path.data()) != nullptr);
    std::ofstream(path + "/a.png") << "x";
  }
  ~Folder() {
    unlink((path + "/a.png").c_str());
    rmdir(path.c_str());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

using Read = fovea::Status (*)(const std::string&, std::string_view, Collection&);

void use(Read read, const std::string& path, std::string_view text) {
  Collection collection({.path = path});
  const fovea::Status status = read(path, text, collection);
  if (!status) FOVEA_CHECK(status.error().message.find('\n') == std::string::npos);
  const fovea::eval::QuestionSet set = std::move(collection).take();
  FOVEA_CHECK(set.pictures <= 1);
  for (const Question& question : set.questions) {
    FOVEA_CHECK(question.picture < set.pictures && !question.text.empty());
    FOVEA_CHECK(question.options.empty()
                    ? !question.answers.empty()
                    : question.right_option >= 0 &&
                          static_cast<size_t>(question.right_option) < question.options.size());
    for (const fovea::eval::Box& box : question.evidence)
      FOVEA_CHECK(box.x0_px < box.x1_px && box.y0_px < box.y1_px);
  }
  for (const std::string& family : set.families) chance_of(set, family);
  fingerprint(set);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder kFolder;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  use(fovea::eval::read_lines, kFolder.path + "/a.jsonl", text);
  use(fovea::eval::read_json, kFolder.path + "/a.json", text);
  return 0;
}
