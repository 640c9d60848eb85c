// SPDX-License-Identifier: Apache-2.0
#include "weights/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "weights/test_files.h"

namespace fovea {
namespace {

using test::contains;
using test::Folder;
using test::safetensors_bytes;
namespace fs = std::filesystem;

std::string file_message(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  return file ? "good" : file.error().message;
}

std::string set_message(const std::string& path) {
  const auto folder = ModelFolder::open(path);
  if (!folder) return folder.error().message;
  const auto set = TensorSet::open(*folder);
  return set ? "good" : set.error().message;
}

std::string length_bytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(length >> (8 * i)));
  return bytes;
}

const std::string kOneHeader = R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
const std::string kOneData = test::f32_bytes({1, -2, 3.5, 4});

TEST(SafetensorsFile, TensorsLieInTheMappedFile) {
  const Folder folder;
  const auto file = SafetensorsFile::open(folder.write(
      "a",
      safetensors_bytes({{"b", DType::kF32, {2, 2}, kOneData}, {"a", DType::kU8, {3}, "xyz"}})));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->size(), 2u);
  EXPECT_EQ(file->tensor(0).name, "a");
  const auto b = file->find("b");
  ASSERT_TRUE(b);
  EXPECT_EQ(b->shape, (Shape{2, 2}));
  EXPECT_EQ(b->bytes, 16u);
  EXPECT_EQ(std::memcmp(b->data, kOneData.data(), 16), 0);
  const auto* begin = static_cast<const std::byte*>(b->data);
  EXPECT_GE(begin, file->file().bytes().data());
  EXPECT_LE(begin + b->bytes, file->file().bytes().data() + file->file().size());
  EXPECT_FALSE(file->find("c"));
}

TEST(SafetensorsFile, WrongLengthsOfTheHeaderAreRefused) {
  const Folder folder;
  const auto with_length = [&](uint64_t length) {
    return file_message(folder.write("a", length_bytes(length) + kOneHeader + kOneData));
  };
  EXPECT_EQ(with_length(kOneHeader.size()), "good");
  EXPECT_TRUE(contains(with_length(0), "the length of its header is 0"));
  EXPECT_TRUE(contains(with_length(kOneHeader.size() + 17), "does not fit"));
  EXPECT_TRUE(contains(with_length(UINT64_MAX), "is 18446744073709551615; at most 33554432"));
  EXPECT_TRUE(contains(with_length(uint64_t{1} << 63), "at most 33554432"));
  EXPECT_TRUE(contains(with_length(100'000'000), "at most 33554432"));
  EXPECT_NE(with_length(kOneHeader.size() - 1), "good");
  EXPECT_NE(with_length(kOneHeader.size() + 1), "good");
  EXPECT_TRUE(contains(with_length(1), folder.path("a"))) << "the file is named";
}

// A header of 100 MB whose file really is that long: refused from its length, without reading it.
TEST(SafetensorsFile, AHeaderOf100MbIsRefusedUnread) {
  const Folder folder;
  const std::string path = folder.write("a", length_bytes(100'000'000));
  fs::resize_file(path, 100'000'100);
  EXPECT_TRUE(
      contains(file_message(path), "the length of its header is 100000000; at most 33554432"));
}

TEST(SafetensorsFile, EveryTruncationIsRefused) {
  const Folder folder;
  const std::string whole = safetensors_bytes(kOneHeader, kOneData);
  ASSERT_EQ(file_message(folder.write("a", whole)), "good");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_NE(file_message(folder.write("a", whole.substr(0, bytes))), "good") << bytes;
  EXPECT_TRUE(
      contains(file_message(folder.write("a", whole + "z")), "1 bytes follow the last tensor"));
}

TEST(SafetensorsFile, AFileThatShrinksAfterMappingIsToldFrom) {
  const Folder folder;
  const std::string data = test::random_bytes(DType::kF32, 100'000, 1);
  const std::string path =
      folder.write("a", safetensors_bytes({{"x", DType::kF32, {100'000}, data}}));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file);
  fs::resize_file(path, 1'000);
  const TensorView x = *file->find("x");
  float last = 1;
  std::memcpy(&last, x.as_bytes().data() + x.bytes - sizeof last, sizeof last);
  EXPECT_EQ(last, 0);
  EXPECT_FALSE(file->file().intact());
}

TEST(TensorSet, TakesOneFileOrShards) {
  const Folder folder;
  folder.write("model.safetensors", safetensors_bytes(kOneHeader, kOneData));
  EXPECT_EQ(set_message(folder.path()), "good");

  const Folder sharded;
  sharded.write("m-1.safetensors", safetensors_bytes({{"a", DType::kF32, {4}, kOneData},
                                                      {"stray", DType::kU8, {1}, "s"}}));
  sharded.write("m-2.safetensors", safetensors_bytes({{"b", DType::kU8, {3}, "xyz"}}));
  sharded.write("model.safetensors.index.json",
                R"({"metadata":{"total_size":19,"x":[1,{}]},"weight_map":{
                    "b":"m-2.safetensors","a":"m-1.safetensors"}})");
  const auto opened = ModelFolder::open(sharded.path());
  ASSERT_TRUE(opened);
  const auto set = TensorSet::open(*opened);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->files().size(), 2u);
  EXPECT_EQ(set->find("a")->bytes, 16u);
  EXPECT_EQ(std::memcmp(set->find("b")->data, "xyz", 3), 0);
  EXPECT_FALSE(set->find("stray")) << "the index does not place it";
  EXPECT_FALSE(set->find("c"));
  EXPECT_TRUE(set->file_of(*set->find("b")).path().ends_with("m-2.safetensors"));
  EXPECT_TRUE(set->intact());
  fs::resize_file(sharded.path("m-2.safetensors"), 10);
  EXPECT_FALSE(set->intact());
}

TEST(TensorSet, BadIndexesAreRefused) {
  const Folder folder;
  folder.write("m.safetensors", safetensors_bytes(kOneHeader, kOneData));
  const auto with_index = [&](const std::string& text) {
    folder.write("model.safetensors.index.json", text);
    return set_message(folder.path());
  };
  EXPECT_EQ(with_index(R"({"weight_map":{"x":"m.safetensors"}})"), "good");
  EXPECT_TRUE(contains(with_index(R"({"weight_map":{}})"), "missing or empty"));
  EXPECT_TRUE(contains(with_index(R"({})"), "missing or empty"));
  EXPECT_TRUE(contains(with_index(R"([])"), "not the JSON"));
  EXPECT_TRUE(contains(with_index(R"({"weight_map":{"x":1}})"), "not the JSON"));
  EXPECT_TRUE(contains(with_index("{\"weight_map\":{\"x\":\"\xff\"}}"), "not UTF-8"));
  EXPECT_TRUE(contains(with_index(R"({"weight_map":{"x":"m.safetensors","x":"m.safetensors"}})"),
                       "tensor \"x\" is there twice"));
  EXPECT_TRUE(contains(with_index(R"({"weight_map":{},"weight_map":{}})"), "\"weight_map\" twice"));
  EXPECT_TRUE(contains(with_index(R"({"weight_map":{"y":"m.safetensors"}})"),
                       "places tensor \"y\" in m.safetensors, which does not have it"));
  EXPECT_TRUE(contains(with_index(R"({"weight_map":{"x":"none.safetensors"}})"),
                       "there is no none.safetensors"));
  std::string many = R"({"weight_map":{)";
  for (size_t i = 0; i <= kMaxShards; ++i)
    many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"" + std::to_string(i) + "\"";
  EXPECT_TRUE(contains(with_index(many + "}}"), "more than 1,000 files"));
}

TEST(TensorSet, ShardNamesCannotLeaveTheFolder) {
  const Folder folder;
  fs::create_directories(folder.path("model/sub"));
  const std::string bytes = safetensors_bytes(kOneHeader, kOneData);
  folder.write("secret.safetensors", bytes);
  folder.write("model/sub/x.safetensors", bytes);
  for (const std::string& name :
       {std::string("../secret.safetensors"), folder.path("secret.safetensors"),
        std::string("sub/x.safetensors"), std::string("./x"), std::string(".."), std::string("."),
        std::string(), std::string("..\\\\secret"), std::string("a\\u0000b"), std::string("a\\nb"),
        std::string(300, 'x')}) {
    folder.write("model/model.safetensors.index.json", R"({"weight_map":{"x":")" + name + "\"}}");
    EXPECT_TRUE(contains(set_message(folder.path("model")), "not the plain name of a file"))
        << name;
  }
}

TEST(TensorSet, LinksOutOfTheFolderAreRefused) {
  const Folder folder;
  fs::create_directories(folder.path("model"));
  folder.write("outside.safetensors", safetensors_bytes(kOneHeader, kOneData));
  folder.write("model/inside.safetensors", safetensors_bytes(kOneHeader, kOneData));
  const fs::path link = folder.path("model/model.safetensors");
  const auto linked_to = [&](const fs::path& target) {
    fs::remove(link);
    fs::create_symlink(target, link);
    return set_message(folder.path("model"));
  };
  EXPECT_EQ(linked_to("inside.safetensors"), "good");
  EXPECT_TRUE(contains(linked_to("../outside.safetensors"), "outside of the folder"));
  EXPECT_TRUE(contains(linked_to(folder.path("outside.safetensors")), "outside of the folder"));
  EXPECT_TRUE(contains(linked_to("nowhere"), "No such file"));
  EXPECT_TRUE(contains(linked_to("model.safetensors"), "model.safetensors")) << "a circle";
  EXPECT_TRUE(contains(linked_to("."), "outside of the folder"));
  fs::create_directories(folder.path("model/sub"));
  folder.write("model/sub/x", "y");
  EXPECT_TRUE(contains(linked_to("sub/x"), "outside of the folder")) << "nor into folders below";
}

// .../models--ORG--NAME/snapshots/REVISION/model.safetensors -> ../../blobs/HASH
TEST(TensorSet, TheHubsCacheIsRead) {
  const Folder folder;
  for (const char* name : {"models--org--name", "models--org--other"}) {
    const std::string model = name;
    fs::create_directories(folder.path(model + "/snapshots/0abc"));
    fs::create_directories(folder.path(model + "/blobs"));
    folder.write(model + "/blobs/1234", safetensors_bytes(kOneHeader, kOneData));
  }
  const std::string snapshot = folder.path("models--org--name/snapshots/0abc");
  const fs::path link = snapshot + "/model.safetensors";
  fs::create_symlink("../../blobs/1234", link);
  EXPECT_EQ(set_message(snapshot), "good");
  fs::create_directory_symlink(snapshot, folder.path("mine"));
  EXPECT_EQ(set_message(folder.path("mine")), "good") << "by a link that the user made";
  for (const char* target :
       {"../../../models--org--other/blobs/1234", "../../blobs/../../../../x"}) {
    fs::remove(link);
    fs::create_symlink(target, link);
    EXPECT_NE(set_message(snapshot), "good") << target;
  }
  // The same layout under another name is no hub's cache.
  fs::rename(folder.path("models--org--other"), folder.path("other"));
  fs::create_symlink("../../blobs/1234", folder.path("other/snapshots/0abc/model.safetensors"));
  EXPECT_TRUE(contains(set_message(folder.path("other/snapshots/0abc")), "outside of the folder"));
}

TEST(TensorSet, FoldersWithoutWeightsSayWhatTheyHold) {
  const Folder folder;
  EXPECT_TRUE(contains(set_message(folder.path("none")), "there is no folder"));
  EXPECT_TRUE(contains(set_message(folder.write("file", "x")), "is a file; give the folder"));
  EXPECT_TRUE(contains(set_message(folder.path()), "neither model.safetensors nor"));
  folder.write("pytorch_model.bin", "x");
  EXPECT_TRUE(contains(set_message(folder.path()), "it holds pytorch_model.bin"));
  fs::remove(folder.path("pytorch_model.bin"));
  folder.write("q8.gguf", "x");
  EXPECT_TRUE(contains(set_message(folder.path()), "GGUF"));
  fs::create_directories(folder.path("model.safetensors"));
  EXPECT_TRUE(contains(set_message(folder.path()), "is a folder"));
}

TEST(ModelFolder, ReadsSmallFilesOnly) {
  const Folder folder;
  folder.write("a.json", "12345");
  const auto opened = ModelFolder::open(folder.path());
  ASSERT_TRUE(opened);
  EXPECT_EQ(*opened->read("a.json", 5), "12345");
  const auto large = opened->read("a.json", 4);
  ASSERT_FALSE(large);
  EXPECT_TRUE(contains(large.error().message, "has 5 bytes; at most 4"));
  EXPECT_FALSE(opened->read("b.json", 5));
  EXPECT_EQ(opened->names(), std::vector<std::string>{"a.json"});
}

}  // namespace
}  // namespace fovea
