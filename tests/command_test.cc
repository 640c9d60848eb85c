// SPDX-License-Identifier: Apache-2.0
// The contract of the command line, on the real program.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

const std::string kPicture = source_dir() + "/examples/pictures/coffee.png";

TEST(Command, WithoutASubcommandPrintsHelp) {
  const Outcome run = run_fovea({});
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.out.find("see"), std::string::npos);
  EXPECT_EQ(run.err, "");
}

TEST(Command, VersionAndHelpGoToStdout) {
  EXPECT_TRUE(run_fovea({"--version"}).out.starts_with("fovea 0."));
  for (const std::string command : {"see", "info", "bench"}) {
    const Outcome run = run_fovea({command, "--help"});
    EXPECT_EQ(run.status, 0);
    EXPECT_NE(run.out.find("Examples:"), std::string::npos) << command;
    EXPECT_EQ(run.err, "");
  }
}

TEST(Command, BadFlagsAreRefusedInOneLine) {
  expect_refused({"look"}, "look");
  expect_refused({"see", kPicture, "--nonsense"}, "--nonsense");
  expect_refused({"see"}, "image");
  expect_refused({"see", kPicture, "--budget"}, "--budget");
  expect_refused({"see", kPicture, "--plan", "spiral"}, "spiral");
  expect_refused({"see", kPicture, "--plan", ""}, "--plan");
  expect_refused({"see", kPicture, "--balance", "median"}, "median");
  for (const std::string flag : {"--budget", "--threads", "--max-pixels"}) {
    for (const std::string value :
         {"-1", "0", "9223372036854775808", "nan", "", "1e3", "7x", "0x10"}) {
      expect_refused({"see", kPicture, flag, value}, flag);
    }
  }
  for (const std::string value : {"-1", "18446744073709551616", "nan", ""})
    expect_refused({"see", kPicture, "--seed", value}, "--seed");
  for (const std::string flag : {"--budget", "--threads", "--plan", "--seed", "--json", "-o"})
    expect_refused({"see", kPicture, flag, "1", flag, "1"}, flag);
  for (const std::string value : {"5", "a,b", "1,2,3", "nan,1", "inf,0", "", ",", "1,"})
    expect_refused({"see", kPicture, "--fixation", value}, "--fixation");
  expect_refused({"see", kPicture, "--fixation", "600,10"}, "600");
  expect_refused({"see", kPicture, "--fixation=-1,10"}, "-1");
}

TEST(Command, DevicesThatAreNotThereAreNamed) {
  for (const std::string device : {"cuda:99", "vulkan:99", "tpu", "", "cuda:", "cuda:-1", "cpu:1"})
    expect_refused({"see", kPicture, "--device", device}, "device ");
}

TEST(Command, BadPathsAreRefused) {
  const auto folder = scratch();
  expect_refused({"see", folder / "missing.jpg"}, "missing.jpg");
  expect_refused({"see", folder}, folder);
  expect_refused({"see", ""}, "");
  expect_refused({"see", kPicture, "-o", folder / "no" / "such" / "seen.png"}, "seen.png");
  expect_refused({"see", kPicture, "-o", folder}, folder);
  expect_refused({"see", kPicture, "--json", folder}, folder);
  expect_refused({"see", kPicture, "--maps", kPicture}, "--maps");
  expect_refused({"see", kPicture, "--coupling", folder / "missing.png"}, "missing.png");
  std::ofstream(folder / "empty.png");
  expect_refused({"see", folder / "empty.png"}, "empty");
  if (geteuid() != 0) {  // root reads everything
    std::filesystem::copy_file(kPicture, folder / "locked.png");
    std::filesystem::permissions(folder / "locked.png", std::filesystem::perms::none);
    expect_refused({"see", folder / "locked.png"}, "locked.png");
  }
}

// A JPEG whose header claims another size: the frame marker FFC0 holds height and width.
std::string with_size(std::string jpeg, int width_px, int height_px) {
  const size_t frame = jpeg.find("\xff\xc0");
  for (const auto& [at, value] : {std::pair{5, height_px}, std::pair{7, width_px}}) {
    jpeg[frame + at] = static_cast<char>(value >> 8);
    jpeg[frame + at + 1] = static_cast<char>(value & 255);
  }
  return jpeg;
}

TEST(Command, BadImagesAreRefused) {
  const auto folder = scratch();
  const std::string images = source_dir() + "/tests/fixtures/images/";
  const std::string jpeg = read_all(images + "ycbcr-444.jpg");
  const std::string png = read_all(images + "rgb-8.png");
  const std::string webp = read_all(images + "lossy.webp");
  std::string bad_crc = png;
  bad_crc[29] ^= 1;  // the last bytes of the header chunk
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"truncated.jpg", jpeg.substr(0, jpeg.size() / 2)},
      {"truncated.png", png.substr(0, png.size() - 3)},
      {"truncated.webp", webp.substr(0, webp.size() - 1)},
      {"nothing.jpg", with_size(jpeg, 0, 13)},
      {"huge.jpg", with_size(jpeg, 65535, 65535)},
      {"long.jpg", with_size(jpeg, 1, 20000)},
      {"crc.png", bad_crc},
      {"not-an-image.png", "once upon a time"},
      {"GIF", "GIF89a\x01\x01"},
      {"BMP", "BM\x46\x01\x01\x01"},
      {"TIFF", std::string("II*\0\x08\0\0\0", 8)},
      {"HEIC", std::string("\0\0\0\x18"
                           "ftypheic\0\0\0\0",
                           16)},
      {"AVIF", std::string("\0\0\0\x18"
                           "ftypavif\0\0\0\0",
                           16)},
      {"SVG", "<svg xmlns='http://www.w3.org/2000/svg'/>"}};
  for (const auto& [name, bytes] : cases) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    expect_refused({"see", folder / name, "-o", folder / "seen.png"}, name);
    EXPECT_FALSE(std::filesystem::exists(folder / "seen.png")) << name;
  }
  expect_refused({"see", images + "rgb.jpg", "--max-pixels", "100"}, "raise max_pixels");
}

std::vector<std::string> bench_rows(const std::vector<std::string>& arguments) {
  const Outcome run = run_fovea(arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out, nullptr, false);
  std::vector<std::string> names;
  if (json.is_discarded()) {
    ADD_FAILURE() << "no JSON: " << run.out;
    return names;
  }
  names.reserve(json["rows"].size());
  for (const auto& row : json["rows"]) names.push_back(row["name"]);
  return names;
}

// The others would take half an hour with a large model.
TEST(Command, BenchAttentionMeasuresTheKindAskedForBesideDense) {
  const auto rows_of = [](const std::string& only, const std::string& model) {
    return bench_rows({"bench", "attention", "--json", "--only", only, "--model", model});
  };
  using Names = std::vector<std::string>;
  const std::string small = source_dir() + "/tests/fixtures/gaze";
  const std::string none = "/nonexistent";  // and needs no model where no tower was asked for
  EXPECT_EQ(rows_of("attention/1024/linformer", none),
            (Names{"attention/1024/dense", "attention/1024/linformer"}));
  EXPECT_EQ(rows_of("attention/step-4096/window", none),
            (Names{"attention/step-4096/dense", "attention/step-4096/window"}));
  EXPECT_EQ(rows_of("tower/4096/linformer", small),
            (Names{"tower/4096/dense", "tower/4096/linformer"}));
  expect_refused({"bench", "attention", "--only", "tower/4096", "--model", none}, none);
  for (const std::string only : {"gravity", "tower/77", "attention/1024/gravity"})
    expect_refused({"bench", "attention", "--only", only}, only);
  expect_refused({"bench", "front-end", "--only", "pyramid"}, "bench attention");
}

TEST(Command, InfoNamesTheCpuEveryPlanAndEveryAttention) {
  const auto json = nlohmann::json::parse(run_fovea({"info", "--json"}).out);
  EXPECT_EQ(json["devices"][0]["name"], "cpu");
  const Outcome text = run_fovea({"info"});
  for (const auto& [name, description] : json["plans"].items())
    EXPECT_NE(text.out.find(name), std::string::npos) << name;
  EXPECT_EQ(json["limits"]["max_pixels"], 178956970);
  const std::string help = run_fovea({"ask", "--help"}).out;
  for (const auto& [name, kind] : json["attention"].items()) {
    EXPECT_NE(text.out.find("\n  " + name + " "), std::string::npos) << name;
    EXPECT_TRUE(kind["tower"] || kind["text"]) << name;
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
  EXPECT_TRUE(json["attention"]["hierarchical"]["tower"]);
  EXPECT_FALSE(json["attention"]["hierarchical"]["text"]);
}

}  // namespace
}  // namespace fovea
