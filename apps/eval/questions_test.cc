// SPDX-License-Identifier: Apache-2.0
#include "eval/questions.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/test_descriptors.h"
#include "eval/cards_questions.h"
#include "eval/score.h"
#include "places.h"

namespace fovea::eval {
namespace {

namespace fs = std::filesystem;

const fs::path kPicture = source_dir() + "/tests/fixtures/ask/wide.png";

class ReadQuestionsTest : public testing::Test {
 protected:
  ReadQuestionsTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        fs::temp_directory_path() / ("fovea-questions-" + std::to_string(getpid()) + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy(kPicture, folder_ / "a.png");
  }
  ~ReadQuestionsTest() override { fs::remove_all(folder_); }

  fs::path write(const fs::path& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  static QuestionSet read(const DataOptions& options) {
    auto set = read_questions(options);
    EXPECT_TRUE(set) << set.error().message;
    return set ? *set : QuestionSet{};
  }
  // The message of a set that is refused.
  std::string refused(const std::string& name, const std::string& text) const {
    const auto set = read_questions({.path = write(name, text).string()});
    EXPECT_FALSE(set) << text;
    if (set) return "";
    EXPECT_EQ(set.error().kind, Error::Kind::kBadInput);
    EXPECT_EQ(set.error().message.find('\n'), std::string::npos) << set.error().message;
    return set.error().message;
  }

  fs::path folder_;
};

constexpr const char* kLlava =
    R"({"id":"q1","image":"a.png","family":"read","payload_px":12,"evidence":[[1,2,30,14]],)"
    R"("conversations":[{"from":"human","value":"<image>\nRead it."},{"from":"gpt","value":"K7"}]})";

// Each mark that is taken out costs the same, however many there are.
TEST_F(ReadQuestionsTest, MarksCostNoMoreThanTheirNumber) {
  std::string marks;
  for (int i = 0; i < 700'000; ++i) marks += "<image>";
  write("q.jsonl",
        R"({"image":"a.png","text":")" + marks + R"(What <im<image>age>is it?","answer":"1"})");
  const auto start = std::chrono::steady_clock::now();
  const QuestionSet set = read({.path = folder_.string()});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(set.questions.size(), 1u);
  EXPECT_EQ(set.questions[0].text, "What is it?");
  EXPECT_LT(taken.count(), 20);  // 0.1 s; it was minutes
}

TEST_F(ReadQuestionsTest, LlavaLines) {
  write("q.jsonl", std::string(kLlava) + "\r\n\n" +
                       R"({"image":["a.png"],"conversations":[{"from":"system","value":"x"},)"
                       R"({"from":"human","value":"One? <image>"},{"from":"gpt","value":"1"},)"
                       R"({"from":"human","value":"Two?"},{"from":"gpt","value":"2"}]})");
  const QuestionSet set = read({.path = folder_.string()});
  ASSERT_EQ(set.questions.size(), 3u);
  EXPECT_EQ(set.questions[0].id, "q1");
  EXPECT_EQ(set.questions[0].text, "Read it.");
  EXPECT_EQ(set.questions[0].answers, std::vector<std::string>{"K7"});
  EXPECT_EQ(set.questions[0].payload_px, 12);
  EXPECT_EQ(set.questions[0].evidence, (std::vector<Box>{{1, 2, 30, 14}}));
  EXPECT_EQ(set.questions[1].text, "One?");
  EXPECT_EQ(set.questions[2].text, "Two?");
  EXPECT_EQ(set.questions[2].family, "q");
  EXPECT_EQ(set.families, (std::vector<std::string>{"read", "q"}));
  EXPECT_EQ(set.pictures, 1u);
  const auto picture = set.picture(0);
  ASSERT_TRUE(picture);
  EXPECT_GT(picture->size.width_px, 0);
}

TEST_F(ReadQuestionsTest, LlavaListsAndImagesElsewhere) {
  write("sub/list.json", "[" + std::string(kLlava) + "]");
  const auto missing = read_questions({.path = (folder_ / "sub/list.json").string()});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("list.json: record 1: no image \"a.png\""),
            std::string::npos)
      << missing.error().message;
  EXPECT_EQ(read({.path = (folder_ / "sub").string(), .images = folder_.string()}).pictures, 1u);
  fs::create_directories(folder_ / "sub/images");
  fs::copy(kPicture, folder_ / "sub/images/a.png");
  EXPECT_EQ(read({.path = (folder_ / "sub").string()}).pictures, 1u);
}

TEST_F(ReadQuestionsTest, EvaluationLinesWithAnswersAndWithLetters) {
  write("q.jsonl",
        R"({"question_id":5,"image":"a.png","text":"How many?","answer":3,"category":"count"})"
        "\n"
        R"({"question_id":6,"image":"a.png","text":"Which?\n(A) left\n(B) right","label":"B"})"
        "\n"
        R"({"question_id":7,"image":"a.png","text":"Which letter is there?","label":"B"})"
        "\n");
  const QuestionSet set = read({.path = (folder_ / "q.jsonl").string()});
  ASSERT_EQ(set.questions.size(), 3u);
  EXPECT_EQ(set.questions[0].id, "5");
  EXPECT_EQ(set.questions[0].family, "count");
  EXPECT_TRUE(is_right(set.questions[0], "three"));
  EXPECT_EQ(set.questions[1].options, (std::vector<std::string>{"left", "right"}));
  EXPECT_TRUE(is_right(set.questions[1], "(B)"));
  EXPECT_TRUE(is_right(set.questions[1], "right"));
  EXPECT_FALSE(is_right(set.questions[1], "A"));
  EXPECT_TRUE(set.questions[2].options.empty());
  EXPECT_TRUE(is_right(set.questions[2], "b"));
}

TEST_F(ReadQuestionsTest, VStarFolders) {
  for (const char* family : {"direct_attributes", "relative_position"})
    for (const char* name : {"sa_1", "sa_2"}) {
      write(fs::path(family) / (std::string(name) + ".json"),
            R"({"target_object":["cup"],"bbox":[[10,20,30,40]],"question":"What colour?",)"
            R"("options":["right","wrong","worse","worst"]})");
      fs::copy(kPicture, folder_ / family / (std::string(name) + ".png"));
    }
  const DataOptions options{.path = folder_.string(), .seed = 3};
  const QuestionSet set = read(options);
  ASSERT_EQ(set.questions.size(), 4u);
  EXPECT_EQ(set.families, (std::vector<std::string>{"direct_attributes", "relative_position"}));
  EXPECT_EQ(set.pictures, 4u);
  EXPECT_EQ(set.questions[0].evidence, (std::vector<Box>{{10, 20, 40, 60}}));
  for (const Question& question : set.questions) {
    ASSERT_EQ(question.options.size(), 4u);
    ASSERT_GE(question.right_option, 0);
    EXPECT_EQ(question.options[static_cast<size_t>(question.right_option)], "right");
    EXPECT_TRUE(is_right(question, "right"));
    EXPECT_TRUE(is_right(question, std::string(1, static_cast<char>('A' + question.right_option))));
    EXPECT_NE(question.text.find("\nA. "), std::string::npos);
  }
  EXPECT_EQ(fingerprint(set), fingerprint(read(options)));
  EXPECT_DOUBLE_EQ(chance_of(set, "direct_attributes").uniform, 0.25);
}

TEST_F(ReadQuestionsTest, TheSeedDecidesTheOrderOfOptions) {
  std::vector<int> places(3);
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Question question;
    ask_options(question, {"a", "b", "c"}, seed);
    ++places[static_cast<size_t>(question.right_option)];
  }
  for (const int count : places) EXPECT_NEAR(count, 200, 70);  // six standard deviations
}

TEST_F(ReadQuestionsTest, LinesWinOverFilesBesideThem) {
  write("q.jsonl", std::string(kLlava) + "\n");
  write("dataset_info.json", R"({"license":"none"})");
  write("direct/x.json", R"({"question":"?","options":["a","b"]})");
  EXPECT_EQ(read({.path = folder_.string()}).questions.size(), 1u);
}

TEST_F(ReadQuestionsTest, BadLinesAreNamedByFileAndLine) {
  const std::string good = std::string(kLlava) + "\n";
  const std::pair<std::string, const char*> cases[] = {
      {"{\"id\":", "q.jsonl:2: it is not JSON, at byte 7"},
      {"[1]", "q.jsonl:2: not a JSON object"},
      {R"({"a":1})", "q.jsonl:2: no question"},
      {R"({"image":"a.png","text":"?"})", "no \"answer\" or \"label\""},
      {R"({"image":"a.png","text":" <image> ","answer":"1"})", "no text"},
      {R"({"text":"?","answer":"1"})", "no \"image\""},
      {R"({"image":5,"text":"?","answer":"1"})", "name of a file"},
      {R"({"image":["a","b"],"text":"?","answer":"1"})", "2 images"},
      {R"({"image":"b.png","text":"?","answer":"1"})", "no image \"b.png\""},
      {R"({"image":"a.png","text":"?","answer":"1","evidence":[[1,2,3]]})", "x0,y0,x1,y1"},
      {R"({"image":"a.png","text":"?","answer":"1","evidence":[[5,2,3,9]]})", "x0,y0,x1,y1"},
      {R"({"image":"a.png","text":"?","answer":"1","evidence":7})", "x0,y0,x1,y1"},
      {R"({"image":"a.png","text":"?","answer":"1","payload_px":-1})", "payload_px"},
      {R"({"image":"a.png","conversations":[]})", "list of messages"},
      {R"({"image":"a.png","conversations":[7]})", "a message must be"},
      {R"({"image":"a.png","conversations":[{"from":"cat","value":"?"}]})", "\"cat\""},
      {R"({"image":"a.png","conversations":[{"from":"human","value":"?"}]})", "no answer"},
      {R"({"image":"a.png","conversations":[{"from":"gpt","value":"?"}]})", "no question"},
      {R"({"image":"a.png","question":"?","options":["a"]})", "2 to 26"},
      {R"({"image":"a.png","question":"?","options":["a",5]})", "2 to 26"},
      {R"({"question":"?","options":["a","b"]})", "no image of the same name"},
      {R"({"image":"../a.png","text":"?","answer":"1"})", "no name in a folder"},
      {R"({"image":"x/../../a.png","text":"?","answer":"1"})", "no name in a folder"},
      {R"({"image":"/etc/passwd","text":"?","answer":"1"})", "no name in a folder"},
      {R"({"image":"a.png\u0000.jpg","text":"?","answer":"1"})", "no name in a folder"},
      {R"({"image":"a.png","image":"b.png","text":"?","answer":"1"})", "twice"},
      {R"({"image":)" + std::string(150'000, '['), "more than 64 levels"},
      {"\xff\xfe", "not JSON"}};
  for (const auto& [line, must_say] : cases) {
    const std::string message = refused("q.jsonl", good + line + "\n");
    EXPECT_NE(message.find(must_say), std::string::npos) << line << "\n" << message;
    EXPECT_NE(message.find("q.jsonl:2: "), std::string::npos) << message;
  }
}

TEST_F(ReadQuestionsTest, BadFilesAreNamed) {
  EXPECT_NE(refused("q.json", "[\n{\"id\":1},\n oops]").find("q.json:3: it is not JSON"),
            std::string::npos);
  EXPECT_NE(refused("q.json", "[{}]").find("q.json: record 1: no question"), std::string::npos);
  EXPECT_NE(refused("q.json", "{}").find("q.json: no question"), std::string::npos);
  EXPECT_NE(refused("q.jsonl", "\n\n").find("no questions"), std::string::npos);
  EXPECT_FALSE(read_questions({.path = (folder_ / "nothing").string()}));
  fs::create_directories(folder_ / "empty");
  const auto empty = read_questions({.path = (folder_ / "empty").string()});
  ASSERT_FALSE(empty);
  EXPECT_NE(empty.error().message.find("no .jsonl or .json"), std::string::npos);
}

TEST_F(ReadQuestionsTest, HonestyPaintsTheEvidenceOrEverything) {
  const std::string path = write("q.jsonl", kLlava).string();
  const Image plain = *read({.path = path}).picture(0);
  const Image black = *read({.path = path, .honesty = Honesty::kPayload}).picture(0);
  const Image noise = *read({.path = path, .honesty = Honesty::kNoise}).picture(0);
  for (int y = 0; y < plain.size.height_px; ++y)
    for (int x = 0; x < plain.size.width_px; ++x) {
      const bool inside = x >= 1 && x < 30 && y >= 2 && y < 14;
      for (int c = 0; c < 3; ++c)
        ASSERT_EQ(black.row(y)[3 * x + c], inside ? 0 : plain.row(y)[3 * x + c]) << x << "," << y;
    }
  EXPECT_EQ(noise.size, plain.size);
  EXPECT_NE(noise.rgb, plain.rgb);
  const auto none = read_questions(
      {.path = write("n.jsonl", R"({"image":"a.png","text":"?","answer":"1"})").string(),
       .honesty = Honesty::kPayload});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("no evidence"), std::string::npos);
}

// Boxes of another scale would leave the evidence to be seen.
TEST_F(ReadQuestionsTest, HonestyRefusesEvidenceOutsideOfTheImage) {
  const Size size = read({.path = write("q.jsonl", kLlava).string()}).picture(0)->size;
  const auto picture_with = [&](const std::string& box) {
    const std::string line =
        R"({"image":"a.png","text":"?","answer":"1","evidence":[)" + box + "]}";
    return read({.path = write("b.jsonl", line).string(), .honesty = Honesty::kPayload}).picture(0);
  };
  const std::string right = std::to_string(size.width_px);
  const std::string far = std::to_string(size.width_px + 2);
  EXPECT_TRUE(picture_with("[0,0," + right + ",4]"));
  EXPECT_TRUE(picture_with("[-0.5,0," + right + ".5,4]"));
  for (const std::string& box :
       {"[0,0," + far + ",4]", "[" + far + ",0,9999,4]", std::string("[-9,-9,-5,-5]")}) {
    const auto picture = picture_with(box);
    ASSERT_FALSE(picture) << box;
    EXPECT_NE(picture.error().message.find("lies outside of"), std::string::npos)
        << picture.error().message;
  }
}

TEST_F(ReadQuestionsTest, FoldersInARingAreReadOnce) {
  write("in/q.jsonl", R"({"image":"a.png","text":"?","answer":"1"})");
  fs::copy(folder_ / "a.png", folder_ / "in" / "a.png");
  fs::create_directory_symlink(".", folder_ / "again");
  fs::create_directory_symlink("in", folder_ / "other");
  EXPECT_EQ(read({.path = folder_.string()}).questions.size(), 1u);
}

TEST_F(ReadQuestionsTest, AFolderThatTheMachineCannotOpenIsNotWrongInput) {
  if (kSanitizerTakesDescriptors)
    GTEST_SKIP() << "the sanitizer needs descriptors to look at objects";
  write("q.jsonl", "{}");
  const NoDescriptors none;
  const auto set = read_questions({.path = folder_.string()});
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().kind, Error::Kind::kFailed) << set.error().message;
}

TEST_F(ReadQuestionsTest, WhatIsNoFileIsRefusedByItsKind) {
  ASSERT_EQ(mkfifo((folder_ / "q.jsonl").c_str(), 0600), 0);
  const auto piped = read_questions({.path = folder_.string()});
  ASSERT_FALSE(piped);
  EXPECT_NE(piped.error().message.find("it is a pipe"), std::string::npos);
  const auto device = read_questions({.path = "/dev/zero"});
  ASSERT_FALSE(device);
  EXPECT_NE(device.error().message.find("it is a device"), std::string::npos);
}

TEST_F(ReadQuestionsTest, FamiliesHaveALimit) {
  std::string many;
  for (int i = 0; i < 50'000; ++i)
    many += R"({"image":"a.png","text":"?","answer":"1","family":")" + std::to_string(i) + "\"}\n";
  EXPECT_NE(refused("f.jsonl", many).find("50,000 families; there may be 1,000"),
            std::string::npos);
}

TEST(Chance, IsWhatAGuesserGets) {
  QuestionSet set;
  for (const char* answer : {"yes", "Yes.", "no", "yes"}) {
    Question question;
    question.family = "exist";
    question.answers = {answer};
    set.questions.push_back(question);
  }
  EXPECT_DOUBLE_EQ(chance_of(set, "exist").most_frequent, 0.75);
  EXPECT_DOUBLE_EQ(chance_of(set, "exist").uniform, 0.5);
  EXPECT_DOUBLE_EQ(chance_of(set, "all").most_frequent, 0.75);
  EXPECT_DOUBLE_EQ(chance_of(set, "other").most_frequent, 0);
}

TEST(CardsQuestions, FamiliesTakeTurnsAndSeedsAreNotThoseOfTraining) {
  Threads threads(2);
  CardsOptions options;
  options.questions = 7;
  options.seed = 5;
  options.scene.size = {512, 512};
  options.scene.cards_min = options.scene.cards_max = 12;
  options.families = {Family::kRead, Family::kCount, Family::kExist};
  const auto set = cards_questions(threads, options);
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->questions.size(), 7u);
  EXPECT_EQ(set->pictures, 3u);
  const char* families[] = {"read", "count", "exist"};
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(set->questions[i].family, families[i % 3]);
    EXPECT_EQ(set->questions[i].picture, i / 3);
  }
  EXPECT_EQ(set->questions[0].evidence.size(), 1u);
  EXPECT_GE(set->questions[0].payload_px, 10);
  EXPECT_LE(set->questions[0].payload_px, 13);
  Threads one(1);
  EXPECT_EQ(fingerprint(*cards_questions(one, options)), fingerprint(*set));

  EXPECT_GE(scene_seed(0, 0), uint64_t{1} << 40);
  EXPECT_LT(scene_seed(6, 1'000'000), scene_seed(7, 0));
  EXPECT_EQ(scene_seed(kMostCardsSeed, 5), (uint64_t{1} << 40) * ((uint64_t{1} << 24) - 1) + 5);
  options.seed = kMostCardsSeed + 1;
  EXPECT_FALSE(cards_questions(threads, options));
}

TEST(CardsQuestions, HonestyLeavesTheQuestionsAndChangesThePictures) {
  Threads threads(1);
  CardsOptions options;
  options.questions = 1;
  options.scene.size = {512, 512};
  options.scene.cards_min = options.scene.cards_max = 12;
  options.families = {Family::kRead};
  const auto plain = cards_questions(threads, options);
  options.honesty = Honesty::kPayload;
  const auto hidden = cards_questions(threads, options);
  options.honesty = Honesty::kNoise;
  const auto noise = cards_questions(threads, options);
  ASSERT_TRUE(plain && hidden && noise);
  EXPECT_EQ(fingerprint(*plain), fingerprint(*hidden));
  const Image seen = *plain->picture(0);
  const Image blank = *hidden->picture(0);
  EXPECT_NE(seen.rgb, noise->picture(0)->rgb);
  EXPECT_EQ(noise->picture(0)->rgb, noise->picture(0)->rgb);
  const Box box = plain->questions[0].evidence[0];
  int differ = 0;
  for (int y = static_cast<int>(box.y0_px); y < static_cast<int>(box.y1_px); ++y)
    for (int x = static_cast<int>(box.x0_px); x < static_cast<int>(box.x1_px); ++x)
      differ += seen.row(y)[3 * x] != blank.row(y)[3 * x] ? 1 : 0;
  EXPECT_GT(differ, 20);
  // Every pixel of the payload's box has one colour now.
  const uint8_t* first = blank.row(static_cast<int>(box.y0_px)) + 3 * static_cast<int>(box.x0_px);
  for (int y = static_cast<int>(box.y0_px); y < static_cast<int>(box.y1_px); ++y)
    for (int x = static_cast<int>(box.x0_px); x < static_cast<int>(box.x1_px); ++x)
      ASSERT_EQ(blank.row(y)[3 * x], *first);
}

}  // namespace
}  // namespace fovea::eval
