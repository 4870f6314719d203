#include "data/prepare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/philox.h"
#include "base/text_input.h"
#include "data/baselines.h"
#include "data/synthetic_source.h"
#include "data/token_file_writer.h"
#include "data/val_split.h"
#include "tokenizer/byte_tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class PrepareTest : public testing::Test {
 protected:
  PrepareTest()
      : folder_(fs::temp_directory_path() /
                ("trireme_prepare_test." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~PrepareTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string decoded(const std::string& token_file) const {
    const auto file = TokenFile::open(path(token_file));
    EXPECT_TRUE(file.ok()) << file.error().message;
    std::vector<int32_t> tokens(file->num_tokens());
    file->read(0, tokens);
    return ByteTokenizer().decode(tokens);
  }
  Result<PrepareReport> run(const PrepareOptions& options) {
    return prepare(ByteTokenizer(), options, team_);
  }

  fs::path folder_;
  ThreadTeam team_{2};
};

std::string json_documents(int64_t count) {
  std::string lines;
  for (int64_t k = 0; k < count; ++k) {
    lines += fmt::format("{{\"text\":\"document {} {}\"}}\n", k, std::string(k % 50, 'x'));
  }
  return lines;
}

TEST_F(PrepareTest, TailOfOneDocumentIsHeldOut) {
  const std::string text = "0123456789 abcdefgh";
  const auto report =
      run({.input = {.paths = {write("a.txt", text)}}, .out = path("out"), .val_fraction = 0.25});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->val.num_tokens, 5);  // a quarter of 19 bytes and <|endoftext|>
  EXPECT_EQ(decoded("out/train.tok") + decoded("out/val.tok"), text + "<|endoftext|>");
  EXPECT_EQ(report->train.text_bytes + report->val.text_bytes, 19);
  EXPECT_EQ(report->train.num_documents, 0);
  EXPECT_EQ(report->val.num_documents, 1);
  EXPECT_EQ(report->train.tokenizer_hash, ByteTokenizer().hash());
  EXPECT_TRUE(load_tokenizer(path("out/tokenizer.json")).ok());
  EXPECT_FALSE(fs::exists(path("out/train.part")));
}

TEST_F(PrepareTest, WithoutValidationNoneIsLeftOfAnEarlierPreparation) {
  PrepareOptions options{
      .input = {.paths = {write("a.txt", "0123456789")}}, .out = path("out"), .val_fraction = 0.3};
  ASSERT_TRUE(run(options).ok());
  ASSERT_TRUE(fs::exists(path("out/val.tok")));
  options.val_fraction = 0.0;
  const auto report = run(options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->val.num_tokens, 0);
  EXPECT_FALSE(fs::exists(path("out/val.tok")));
  EXPECT_EQ(decoded("out/train.tok"), "0123456789<|endoftext|>");
}

TEST_F(PrepareTest, EveryDocumentIsInOneOfTheTwoFilesInOrder) {
  const auto report = run({.input = {.paths = {write("a.jsonl", json_documents(200))}},
                           .out = path("out"),
                           .val_fraction = 0.1});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->train.num_documents + report->val.num_documents, 200);
  EXPECT_NEAR(static_cast<double>(report->val.num_documents), 20, 1);
  std::string train = decoded("out/train.tok"), val = decoded("out/val.tok");
  const ValSplit split(1337, 0.1);
  for (int64_t k = 0; k < 200; ++k) {
    std::string& side = split.holds_out(k) ? val : train;
    const std::string document =
        "document " + std::to_string(k) + " " + std::string(k % 50, 'x') + "<|endoftext|>";
    ASSERT_EQ(side.substr(0, document.size()), document);
    side.erase(0, document.size());
  }
  EXPECT_EQ(train + val, "");
}

TEST(ValSplit, HoldsOutItsFractionOfEveryStretch) {
  for (double fraction : {0.001, 0.01, 0.1, 0.3, 0.5, 0.9}) {
    const ValSplit split(3, fraction);
    int64_t held_out = 0;
    for (int64_t document = 0; document < 20000; ++document) {
      EXPECT_NEAR(static_cast<double>(held_out), document * fraction, 1.0);
      held_out += split.holds_out(document);
    }
  }
  EXPECT_FALSE(ValSplit(3, 0.0).holds_out(0));
}

// The length of a text of a store does not show that it was replaced, but its checksum does.
TEST_F(PrepareTest, ATextOfAStoreIsResumedUnlessItWasReplaced) {
  std::string text = json_documents(3000);
  const auto prepare_from_store = [&](const std::string& out, bool stops) {
    PrepareOptions options{
        .input = {.paths = {"store://demo/a.jsonl"}}, .out = path(out), .block_bytes = 50000};
    options.input.open_input = [&](const std::string& name) -> Result<InputFile> {
      return input_of_text(name, text);
    };
    if (stops) options.stop = [] { return true; };
    return run(options);
  };
  ASSERT_TRUE(prepare_from_store("whole", false).ok());
  ASSERT_FALSE(prepare_from_store("out", true).ok());
  const auto resumed = prepare_from_store("out", false);
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  EXPECT_TRUE(resumed->was_resumed);
  EXPECT_EQ(*read_text_file(path("out/train.tok")), *read_text_file(path("whole/train.tok")));
  ASSERT_FALSE(prepare_from_store("replaced", true).ok());
  text[text.find("document") + 1] = 'O';
  const auto replaced = prepare_from_store("replaced", false);
  ASSERT_TRUE(replaced.ok()) << replaced.error().message;
  EXPECT_FALSE(replaced->was_resumed);
}

// The preparation is stopped after any block, either by `stop` or by a kill that leaves more in the
// part files than the saved state says.
TEST_F(PrepareTest, StoppedAnywhereAndResumedGivesTheSameFiles) {
  const std::string lines = write("a.jsonl", json_documents(3000));
  const std::string text = write("b.txt", std::string(150000, 'a') + " end");
  PrepareOptions options{
      .input = {.paths = {lines, text}}, .out = path("whole"), .block_bytes = 50000};
  ASSERT_TRUE(run(options).ok());
  for (int stop_after = 1; stop_after <= 5; ++stop_after) {
    options.out = path("resumed" + std::to_string(stop_after));
    int blocks = 0;
    options.stop = [&] { return ++blocks == stop_after; };
    const auto stopped = run(options);
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, ErrorKind::Runtime);
    std::ofstream(options.out + "/train.part", std::ios::app) << "written after the last state";
    const auto resumed = run(options);
    ASSERT_TRUE(resumed.ok()) << resumed.error().message;
    EXPECT_TRUE(resumed->was_resumed);
    for (const char* name : {"train.tok", "val.tok"}) {
      EXPECT_EQ(*read_text_file(options.out + "/" + name),
                *read_text_file(path("whole") + "/" + name));
    }
  }
}

TEST_F(PrepareTest, ChangedInputStartsAfresh) {
  const std::string lines = write("a.jsonl", json_documents(3000));
  PrepareOptions options{.input = {.paths = {lines}}, .out = path("out"), .block_bytes = 50000};
  options.stop = [] { return true; };
  ASSERT_FALSE(run(options).ok());
  options.stop = nullptr;
  options.val_fraction = 0.2;
  const auto report = run(options);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->was_resumed);
  EXPECT_EQ(report->train.num_documents + report->val.num_documents, 3000);
}

TEST_F(PrepareTest, RefusalsLeaveNothingBehind) {
  const auto none_held_out = run({.input = {.paths = {write("a.jsonl", json_documents(3))}},
                                  .out = path("out"),
                                  .val_fraction = 1e-6});
  ASSERT_FALSE(none_held_out.ok());
  EXPECT_NE(none_held_out.error().message.find("3 documents"), std::string::npos);
  EXPECT_FALSE(
      run({.input = {.paths = {path("a.jsonl")}}, .out = path("out"), .val_fraction = 1.0}).ok());
  EXPECT_FALSE(run({.input = {.paths = {write("b.jsonl", "{}\n")}}, .out = path("out")}).ok());
  EXPECT_TRUE(fs::is_empty(path("out")));
}

// On the tokens of a Markov chain the bigram model reaches the entropy rate, and its probabilities
// sum to one.
TEST_F(PrepareTest, BigramBaselineReachesTheEntropyRateOfAChain) {
  const int64_t vocab_size = 24, seq_len = 1000;
  for (const char* split : {"train", "val"}) {
    const SyntheticSource source(2, vocab_size, split);
    auto writer = TokenFileWriter::create(path(split), vocab_size, 1);
    std::vector<int32_t> inputs(seq_len), targets(seq_len);
    for (uint64_t sample = 0; sample < 300; ++sample) {
      source.read_sample(sample, inputs, targets);
      ASSERT_TRUE(writer->append(inputs).ok());
    }
    ASSERT_TRUE(writer->finish({.num_documents = 300, .text_bytes = 600000}).ok());
  }
  const auto train = TokenFile::open(path("train")), val = TokenFile::open(path("val"));
  const auto baselines = measure_baselines(*train, *val);
  ASSERT_TRUE(baselines.ok());
  const double rate = SyntheticSource(2, vocab_size).entropy_rate();
  EXPECT_NEAR(baselines->bigram_nats, rate, 0.02);
  EXPECT_GT(baselines->unigram_nats, rate + 0.3);
  EXPECT_DOUBLE_EQ(baselines->bigram_bits_per_byte, baselines->bigram_nats / std::log(2.0) / 2);
  EXPECT_EQ(baselines->train_tokens, 300000);
}

TEST_F(PrepareTest, BaselineProbabilitiesSumToOne) {
  auto writer = TokenFileWriter::create(path("t"), 30, 1);
  std::vector<int32_t> tokens;
  for (uint64_t t = 0; t < 9000; ++t) {
    tokens.push_back(
        static_cast<int32_t>(philox(RngKey{4}, counter_of(t, 0))[0] % 29 % (t % 7 + 3)));
  }
  ASSERT_TRUE(writer->append(tokens).ok());
  ASSERT_TRUE(writer->finish({}).ok());
  const auto file = TokenFile::open(path("t"));
  for (int64_t max_pairs : {0, 1, 20, 1000}) {
    const CountModel model(*file, max_pairs);
    double unigram = 0;
    for (int32_t token = 0; token < 30; ++token) unigram += model.unigram(token);
    EXPECT_NEAR(unigram, 1.0, 1e-12);
    for (int32_t previous = 0; previous < 30; ++previous) {
      double sum = 0;
      for (int32_t token = 0; token < 30; ++token) {
        EXPECT_GT(model.bigram(previous, token), 0.0);
        sum += model.bigram(previous, token);
      }
      EXPECT_NEAR(sum, 1.0, 1e-12) << previous << " with " << max_pairs;
    }
  }
}

}  // namespace
}  // namespace trireme
