// SPDX-License-Identifier: Apache-2.0
#include "weights/header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <random>

#include "weights/test_files.h"

namespace fovea {
namespace {

using test::contains;

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

// The error's message; "good" where there is none.
std::string message(const std::string& text, int64_t data_bytes) {
  const auto header = parse_header(text, data_bytes);
  return header ? "good" : header.error().message;
}

TEST(FileHeader, EveryTensorComesOutAsItWasWritten) {
  const std::string text =
      "{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "BF16", "[2,3]", "[0,12]") + "," +
      entry("a", "F32", "[]", "[12,16]") + "," + entry("none", "F16", "[0,7]", "[16,16]") + "}  ";
  const auto header = parse_header(text, 16);
  ASSERT_TRUE(header) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 3u);
  EXPECT_EQ(header->tensors[0].name, "a") << "sorted by name";
  const HeaderTensor* b = header->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, DType::kBf16);
  EXPECT_EQ(b->shape, (Shape{2, 3}));
  EXPECT_EQ(b->begin, 0);
  EXPECT_EQ(b->end, 12);
  EXPECT_EQ(header->find("a")->shape.values(), 1);
  EXPECT_EQ(header->find("none")->shape.values(), 0);
  EXPECT_EQ(header->find("c"), nullptr);
  EXPECT_EQ(header->find(""), nullptr);
}

TEST(FileHeader, NoTensorsAtAllIsAHeader) {
  EXPECT_EQ(message("{}", 0), "good");
  EXPECT_TRUE(contains(message("{}", 5), "5 bytes follow the last tensor"));
}

TEST(FileHeader, AllTypesHaveTheirSize) {
  for (int i = 0; i <= static_cast<int>(DType::kF4); ++i) {
    const auto dtype = static_cast<DType>(i);
    const int64_t bytes = 8 * dtype_bits(dtype) / 8;
    const std::string text =
        "{" +
        entry("a", std::string(dtype_name(dtype)), "[8]", "[0," + std::to_string(bytes) + "]") +
        "}";
    EXPECT_EQ(message(text, bytes), "good") << dtype_name(dtype);
    EXPECT_NE(message(text, bytes + 1), "good") << dtype_name(dtype);
  }
  EXPECT_TRUE(
      contains(message("{" + entry("a", "F4", "[3]", "[0,2]") + "}", 2), "no file can hold"));
}

TEST(FileHeader, BrokenTensorsAreNamed) {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return message("{" + entry("x.weight", dtype, shape, offsets) + "}", 16);
  };
  EXPECT_EQ(one("F32", "[4]", "[0,16]"), "good");
  EXPECT_EQ(one("F33", "[4]", "[0,16]"), "tensor \"x.weight\" has the unknown dtype \"F33\"");
  EXPECT_EQ(one("f32", "[4]", "[0,16]"), "tensor \"x.weight\" has the unknown dtype \"f32\"");
  EXPECT_EQ(one("F32", "[4]", "[16,0]"), "tensor \"x.weight\" begins at byte 16 and ends at 0");
  EXPECT_EQ(one("F32", "[5]", "[0,20]"),
            "tensor \"x.weight\" ends at byte 20 of the data, which has 16; is the file cut off?");
  EXPECT_EQ(one("F32", "[3]", "[0,16]"),
            "tensor \"x.weight\" has 16 bytes, but its shape [3] of F32 takes 12");
  for (const char* huge :
       {"[4294967296,4294967296]", "[9223372036854775808]", "[18446744073709551615]",
        "[4611686018427387904,4]", "[2,2305843009213693952,0]"})
    EXPECT_TRUE(contains(one("F32", huge, "[0,16]"), "which no file can hold")) << huge;
  EXPECT_TRUE(contains(one("F32", "[-4]", "[0,16]"), "no whole number"));
  EXPECT_TRUE(contains(one("F32", "[4.0]", "[0,16]"), "no whole number"));
  EXPECT_TRUE(contains(one("F32", "[18446744073709551616]", "[0,16]"), "over 2^64-1"));
  EXPECT_TRUE(contains(one("F32", "[1,1,1,1,1,1,1,1,4]", "[0,16]"), "more than 8 numbers"));
  EXPECT_TRUE(contains(one("F32", "4", "[0,16]"), "where '[' should be"));
  EXPECT_TRUE(contains(one("F32", "[4]", "[0]"), "no data_offsets of two numbers"));
  EXPECT_TRUE(contains(one("F32", "[4]", "[0,8,16]"), "more than 2 numbers"));
  EXPECT_TRUE(contains(one("F32", "[4]", "[0,18446744073709551615]"), "is the file cut off?"));
  EXPECT_TRUE(
      contains(message(R"({"x":{"shape":[4],"data_offsets":[0,16]}})", 16), "has no dtype"));
  EXPECT_TRUE(
      contains(message(R"({"x":{"dtype":"F32","data_offsets":[0,16]}})", 16), "has no shape"));
  EXPECT_TRUE(contains(message(R"({"x":{"dtype":"F32","shape":[4]}})", 16), "has no data_offsets"));
  EXPECT_TRUE(contains(message(R"({"x":{"dtype":"F32","dtype":"F32"}})", 16), "unknown or twice"));
  EXPECT_TRUE(contains(message(R"({"x":{"dtype":1}})", 16), "described wrongly"));
  EXPECT_TRUE(contains(message(R"({"x":[]})", 16), "described wrongly"));
}

TEST(FileHeader, TheTensorsCoverTheDataOnce) {
  const auto two = [](const std::string& a, const std::string& b, int64_t data_bytes) {
    return message("{" + entry("a", "U8", "[8]", a) + "," + entry("b", "U8", "[8]", b) + "}",
                   data_bytes);
  };
  EXPECT_EQ(two("[0,8]", "[8,16]", 16), "good");
  EXPECT_EQ(two("[8,16]", "[0,8]", 16), "good") << "in any order";
  EXPECT_EQ(two("[0,8]", "[4,12]", 12),
            "tensor \"b\" overlaps tensor \"a\": it begins at byte 4 of the data, before 8");
  EXPECT_TRUE(contains(two("[0,8]", "[0,8]", 8), "overlaps"));
  EXPECT_EQ(two("[0,8]", "[10,18]", 18),
            "bytes 8 to 10 of the data, before tensor \"b\", belong to no tensor");
  EXPECT_TRUE(
      contains(two("[2,10]", "[10,18]", 18), "bytes 0 to 2 of the data, before tensor \"a\""));
  EXPECT_EQ(two("[0,8]", "[8,16]", 19), "3 bytes follow the last tensor");
  EXPECT_TRUE(contains(two("[0,8]", "[8,16]", 15), "is the file cut off?"));
}

TEST(FileHeader, DuplicateKeysAreRefused) {
  const std::string a = entry("a", "U8", "[8]", "[0,8]");
  EXPECT_EQ(message("{" + a + "," + a + "}", 8), "tensor \"a\" is there twice");
  // The same name, written with an escape.
  EXPECT_EQ(message("{" + a + "," + entry("\\u0061", "U8", "[8]", "[8,16]") + "}", 16),
            "tensor \"a\" is there twice");
  EXPECT_TRUE(contains(message(R"({"__metadata__":{},"__metadata__":{}})", 0), "twice"));
}

TEST(FileHeader, WhatIsNotJsonOrNotUtf8IsRefused) {
  for (const char* text :
       {"", " ", "null", "[]", "{", "{}}", "{\"a\"", "hello", "{\"a\":1}", "{,}"})
    EXPECT_NE(message(text, 0), "good") << text;
  EXPECT_EQ(message("{\"__metadata__\":{\"a\":\"\xff\"}}", 0),
            "the header is not UTF-8 at byte 22");
  EXPECT_TRUE(contains(message(std::string("{\0}", 3), 0), "should be"));
  const std::string deep = "{\"__metadata__\":" + std::string(100'000, '[');
  EXPECT_TRUE(contains(message(deep, 0), "more than 64 levels"));
}

TEST(FileHeader, AStrangeNameStaysOnOneShortLine) {
  const std::string name = "line\\nbreak" + std::string(1'000'000, 'x');
  const std::string text = message("{" + entry(name, "F33", "[4]", "[0,16]") + "}", 16);
  EXPECT_TRUE(contains(text, "line\\x0abreak")) << text;
  EXPECT_LT(text.size(), 300u);
}

// 100,000 tensors, in an order that helps no sort; and one more than the limit.
TEST(FileHeader, EightTimesTheTensorsTakeAboutEightTimesTheTime) {
  const auto many = [](size_t count) {
    std::vector<size_t> order(count);
    for (size_t i = 0; i < count; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    std::string text = "{";
    for (const size_t i : order)
      text += (text.size() > 1 ? "," : "") +
              entry("model.layers.tensor." + std::to_string(i), "BF16", "[1,2,2]",
                    "[" + std::to_string(8 * i) + "," + std::to_string(8 * i + 8) + "]");
    return text + "}";
  };
  const auto cpu_time_of = [](const std::string& text, int64_t bytes) {
    std::clock_t least = std::numeric_limits<std::clock_t>::max();
    for (int i = 0; i < 3; ++i) {
      const std::clock_t start = std::clock();
      EXPECT_TRUE(parse_header(text, bytes));
      least = std::min(least, std::clock() - start);
    }
    return static_cast<double>(least);
  };
  const std::string text = many(100'000);
  const auto header = parse_header(text, 800'000);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->tensors.size(), 100'000u);
  EXPECT_EQ(header->find("model.layers.tensor.77777")->begin, 8 * 77'777);
  // Looking every tensor up among all others would take 64 times as long.
  EXPECT_LT(cpu_time_of(text, 800'000), 30 * cpu_time_of(many(12'500), 100'000));
  EXPECT_EQ(message(many(kMaxTensors + 1), int64_t{8} * (kMaxTensors + 1)),
            "the header names more than 200,000 tensors");
}

// Any single change of a byte gives a good header or a message of one line; never more.
TEST(FileHeader, DamagedBytesGiveAMessage) {
  const std::string good = "{\"__metadata__\":{\"format\":\"pt\"}," +
                           entry("b", "BF16", "[2,3]", "[0,12]") + "," +
                           entry("a", "F32", "[]", "[12,16]") + "}";
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (size_t n = 1 + random() % 3; n > 0; --n)
      text[random() % text.size()] = static_cast<char>(random());
    if (random() % 4 == 0) text.resize(random() % text.size());
    const std::string said = message(text, 16);
    ASSERT_FALSE(contains(said, "\n")) << said;
    ASSERT_LT(said.size(), 500u);
  }
}

}  // namespace
}  // namespace fovea
