// SPDX-License-Identifier: Apache-2.0
#include "serve/call_pictures.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "places.h"
#include "serve/small_calls.h"

namespace fovea::serve {
namespace {

constexpr const char* kParam = "messages[0].content[0].image_url";
const std::string kFolder = source_dir() + "/tests/fixtures/images";
const std::string kUrl = "file://" + kFolder + "/rgb-8.png";

ChatCall call_of(int pictures) {
  ChatCall call;
  for (int i = 0; i < pictures; ++i) call.pictures.push_back({.url = kUrl, .param = kParam});
  return call;
}

std::string base64_of(const std::vector<uint8_t>& bytes) {
  static constexpr char kLetters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  uint32_t held = 0;
  int bits = 0;
  for (const uint8_t byte : bytes) {
    held = held << 8 | byte;
    for (bits += 8; bits >= 6; bits -= 6) text += kLetters[held >> (bits - 6) & 63];
  }
  if (bits > 0) text += kLetters[held << (6 - bits) & 63];
  return text;
}

int64_t bytes_of_one() { return load_image(kFolder + "/rgb-8.png")->size.pixels() * 3; }

TEST(CallPictures, TakeRoomForTheirPixelsUntilItIsGivenBack) {
  const PictureLimits limits{.hosts = {}, .folder = kFolder};
  PictureStore store;
  PictureRoom room(2 * bytes_of_one());
  const std::atomic<bool> gone = false;
  ChatCall two = call_of(2);
  CallPictures first;
  EXPECT_FALSE(first.load(two, {store, 0, limits, 1 << 20, room}, gone));
  EXPECT_EQ(room.taken(), 2 * bytes_of_one());
  {
    ChatCall one = call_of(1);
    CallPictures second;
    const auto error = second.load(one, {store, 0, limits, 1 << 20, room}, gone);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, 503);
    EXPECT_EQ(error->code, "memory_busy");
    EXPECT_TRUE(second.images.empty());
  }
  first.give_room_back();
  EXPECT_EQ(room.taken(), 0);
}

// One is in the body of the request, one in a file; both are the same picture.
TEST(CallPictures, AreReadWhereTheyStandInTheBody) {
  const PictureLimits limits{.hosts = {}, .folder = kFolder};
  PictureStore store;
  PictureRoom room(int64_t{1} << 30);
  const std::atomic<bool> gone = false;
  const auto read = read_picture(kUrl, limits, kParam);
  const auto& file = std::get<std::vector<uint8_t>>(read);
  ChatCall call = call_of(2);
  PictureName& first = call.pictures[0];
  first.url.clear();
  first.body = std::make_shared<std::string>("data:image/png;base64," + base64_of(file));
  first.long_url = *first.body;
  const std::weak_ptr<std::string> body = first.body;
  CallPictures pictures;
  EXPECT_FALSE(pictures.load(call, {store, 0, limits, 1 << 20, room}, gone));
  ASSERT_EQ(pictures.images.size(), 2u);
  EXPECT_EQ(pictures.images[0].rgb, pictures.images[1].rgb);
  ASSERT_FALSE(body.expired());
  EXPECT_EQ(body.lock()->compare(22, file.size(), reinterpret_cast<const char*>(file.data()),
                                 file.size()),
            0)
      << "it was decoded elsewhere";
  EXPECT_EQ(pictures.digests()[0], pictures.digests()[1]);
  EXPECT_TRUE(body.expired()) << "nobody reads the file again";
}

TEST(CallPictures, ThatAreTooManyAreRefusedBeforeTheyAreDecoded) {
  const PictureLimits limits{.hosts = {}, .folder = kFolder};
  PictureStore store;
  PictureRoom room(int64_t{1} << 30);
  const std::atomic<bool> gone = false;
  ChatCall call = call_of(1);
  CallPictures pictures;
  const auto error = pictures.load(call, {store, 0, limits, bytes_of_one() / 3 - 1, room}, gone);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, "picture_too_large");
  EXPECT_EQ(room.taken(), 0);
}

TEST(SmallCalls, ASightTakesRoomAndEndsWhereItsClientHasGone) {
  const PictureLimits limits{.hosts = {}, .folder = kFolder};
  const std::string body = R"({"image": ")" + kUrl + R"("})";
  const std::atomic<bool> here = false;
  const std::atomic<bool> gone = true;
  PictureRoom enough(bytes_of_one());
  const auto seen = see_json(body, limits, enough, here);
  EXPECT_TRUE(std::holds_alternative<std::string>(seen));
  EXPECT_EQ(enough.taken(), 0);
  const auto left = see_json(body, limits, enough, gone);
  EXPECT_EQ(std::get<ApiError>(left).code, "gone");
  PictureRoom little(bytes_of_one() - 1);
  const auto refused = see_json(body, limits, little, here);
  EXPECT_EQ(std::get<ApiError>(refused).status, 503);
  EXPECT_EQ(std::get<ApiError>(refused).code, "memory_busy");
}

}  // namespace
}  // namespace fovea::serve
