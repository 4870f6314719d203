#include "cli/data_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/text_options.h"
#include "cli/tokenizer_command.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class TextCommands : public testing::Test {
 protected:
  TextCommands()
      : folder_(fs::temp_directory_path() /
                ("trireme_text_commands_test." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
    for (int k = 0; k < 400; ++k)
      text_ += "It's line " + std::to_string(k % 37) + " of caf\xC3\xA9s.\n";
    write("a.txt", text_);
  }
  ~TextCommands() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  Status inspect(const DataInspectOptions& options, std::ostream& out) {
    CommandIo io{.out = out, .err = err_};
    return run_data_inspect(options, io);
  }
  void train(const std::string& kind) {
    fs::remove(path("tokenizer.json"));
    const auto status = run_tokenizer_train({.input = {.paths = {path("a.txt")}},
                                             .kind = kind,
                                             .vocab_size = 300,
                                             .out = path("tokenizer.json"),
                                             .num_threads = 2},
                                            out_, err_);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }

  fs::path folder_;
  std::string text_;
  std::ostringstream out_, err_;
};

// For every kind of tokenizer train, check, encode, decode, prepare and decode restore the text.
TEST_F(TextCommands, TextComesBackThroughEveryKindOfTokenizer) {
  for (const char* kind : {"byte", "char", "bpe"}) {
    train(kind);
    EXPECT_NE(out_.str().find(kind), std::string::npos);
    const std::string tokenizer = path("tokenizer.json");
    std::ostringstream checked, numbers, decoded, prepared, both;
    const std::string data = std::string("data-") + kind;
    const TextInput input{.paths = {path("a.txt")}};
    ASSERT_TRUE(run_tokenizer_check({.tokenizer = tokenizer, .input = input}, checked, err_).ok());
    EXPECT_EQ(checked.str().substr(0, 3), "ok:");
    ASSERT_TRUE(run_tokenizer_encode({.tokenizer = tokenizer, .input = input}, numbers, err_).ok());
    write("numbers.txt", numbers.str());
    ASSERT_TRUE(
        run_tokenizer_decode({.tokenizer = tokenizer, .input = path("numbers.txt")}, decoded, err_)
            .ok());
    EXPECT_EQ(decoded.str(), text_) << kind;
    ASSERT_TRUE(
        run_data_prepare(
            {.input = input, .tokenizer = tokenizer, .out = path(data), .val_fraction = 0.2},
            prepared, err_)
            .ok());
    for (const char* name : {"/train.tok", "/val.tok"}) {
      ASSERT_TRUE(
          run_tokenizer_decode(
              {.tokenizer = path(data + "/tokenizer.json"), .input = path(data + name)}, both, err_)
              .ok());
    }
    EXPECT_EQ(both.str(), text_ + "<|endoftext|>") << kind;
  }
}

// A second preparation would replace tokens that a run may be reading. One that was interrupted
// goes on.
TEST_F(TextCommands, AFinishedDataSetIsNotReplaced) {
  train("byte");
  write("b.txt", "Another text.");
  const auto prepared_from = [&](const char* text) {
    return run_data_prepare({.input = {.paths = {path(text)}},
                             .tokenizer = path("tokenizer.json"),
                             .out = path("data")},
                            out_, err_);
  };
  ASSERT_TRUE(prepared_from("a.txt").ok());
  const std::string tokens = read_text_file(path("data/train.tok")).value();
  for (const char* text : {"a.txt", "b.txt"}) {
    const Status refused = prepared_from(text);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
    EXPECT_NE(refused.error().message.find("train.tok exists; choose another folder"),
              std::string::npos)
        << refused.error().message;
    EXPECT_EQ(read_text_file(path("data/train.tok")).value(), tokens);
  }
  write("data/train.part", "");  // as an interruption leaves it
  EXPECT_TRUE(prepared_from("b.txt").ok());
  EXPECT_NE(read_text_file(path("data/train.tok")).value(), tokens);
}

TEST_F(TextCommands, InspectTellsWhatTheFileHoldsAndWhatCountingPredicts) {
  train("bpe");
  ASSERT_TRUE(run_data_prepare({.input = {.paths = {path("a.txt")}},
                                .tokenizer = path("tokenizer.json"),
                                .out = path("data"),
                                .val_fraction = 0.2},
                               out_, err_)
                  .ok());
  std::ostringstream json, lines;
  DataInspectOptions options{.file = path("data/val.tok"),
                             .verify = true,
                             .json = true,
                             .baselines = path("data/train.tok")};
  ASSERT_TRUE(inspect(options, json).ok());
  const auto object = parse_json(json.str());
  EXPECT_EQ(object["vocab_size"], 300);
  EXPECT_EQ(object["verified"], true);
  EXPECT_LT(object["bigram_nats"].get<double>(), object["unigram_nats"].get<double>());
  EXPECT_LT(object["unigram_bits_per_byte"].get<double>(), 8.0);
  options.json = false;
  options.tokenizer = path("tokenizer.json");
  options.head = 10;
  ASSERT_TRUE(inspect(options, lines).ok());
  EXPECT_NE(lines.str().find("bigram baseline"), std::string::npos) << lines.str();
  EXPECT_NE(lines.str().find("chunk checksums: 1 of "), std::string::npos) << lines.str();
  EXPECT_EQ(object["chunk_checksums"], true);
  EXPECT_NE(lines.str().find(object["checksum"].get<std::string>()), std::string::npos);
}

TEST_F(TextCommands, InspectSaysThatFilesOfOthersHaveNoChecksums) {
  write("train.bin", std::string(4000, 'a'));
  std::ostringstream json, lines;
  ASSERT_TRUE(inspect({.file = path("train.bin"), .verify = true}, lines).ok());
  EXPECT_NE(lines.str().find("2000 tokens of 2 bytes, nanoGPT's format\nchecksum: none"),
            std::string::npos)
      << lines.str();
  ASSERT_TRUE(inspect({.file = path("train.bin"), .json = true}, json).ok());
  const auto object = parse_json(json.str());
  EXPECT_EQ(object["format"], "nanogpt");
  EXPECT_EQ(object["tokens"], 2000);
  EXPECT_TRUE(object["checksum"].is_null());
  EXPECT_EQ(object["verified"], false);
  const auto head = inspect({.file = path("train.bin"), .head = 5}, lines);
  ASSERT_FALSE(head.ok());
  EXPECT_EQ(head.error().kind, ErrorKind::Usage);
}

TEST_F(TextCommands, DamagedFilesAndWrongWordsAreRefusedWithTheirKind) {
  train("bpe");
  const std::string tokenizer = path("tokenizer.json");
  const auto kind_of = [](const Status& status) {
    EXPECT_FALSE(status.ok());
    return status.error().kind;
  };
  const TextInput input{.paths = {path("a.txt")}};
  EXPECT_EQ(kind_of(run_tokenizer_train({.input = input, .kind = "bpa"}, out_, err_)),
            ErrorKind::Usage);
  EXPECT_EQ(kind_of(run_tokenizer_train({.input = input, .vocab_size = 100}, out_, err_)),
            ErrorKind::Usage);
  const auto again = run_tokenizer_train({.input = input, .out = tokenizer}, out_, err_);
  EXPECT_EQ(kind_of(again), ErrorKind::Usage);
  EXPECT_NE(again.error().message.find("tokenizer.json exists"), std::string::npos);
  EXPECT_EQ(kind_of(run_data_prepare({.input = input, .tokenizer = ""}, out_, err_)),
            ErrorKind::Usage);
  write("numbers.txt", "1 2 300");
  const auto decoded =
      run_tokenizer_decode({.tokenizer = tokenizer, .input = path("numbers.txt")}, out_, err_);
  EXPECT_EQ(kind_of(decoded), ErrorKind::Damaged);
  EXPECT_NE(decoded.error().message.find("number 3 is '300'"), std::string::npos);
  write("tokenizer.json", read_text_file(tokenizer).value().substr(0, 500));
  EXPECT_EQ(kind_of(run_tokenizer_check({.tokenizer = tokenizer, .input = input}, out_, err_)),
            ErrorKind::Damaged);
  write("val.tok", "TRITOK");
  EXPECT_EQ(kind_of(inspect({.file = path("val.tok")}, out_)), ErrorKind::Damaged);
  EXPECT_NE(parse_text_format("jsonln").error().message.find("'jsonl'"), std::string::npos);
  EXPECT_NE(parse_held_out("tial").error().message.find("'tail'"), std::string::npos);
}

TEST_F(TextCommands, UnknownCharacterNamesItAndBytesThatAreNotUtf8AreSaidOnce) {
  train("char");
  write("b.txt", "\xE4\xB8\xAD");
  const auto status = run_tokenizer_encode(
      {.tokenizer = path("tokenizer.json"), .input = {.paths = {path("b.txt")}}}, out_, err_);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("U+4E2D"), std::string::npos);
  write("c.txt", "caf\xE9 \xE9\xE9");
  err_.str("");
  ASSERT_TRUE(
      run_tokenizer_encode({.tokenizer = "byte", .input = {.paths = {path("c.txt")}}}, out_, err_)
          .ok());
  EXPECT_EQ(err_.str(), "note: 3 bytes are not UTF-8, the first at " + path("c.txt") +
                            ": byte 3; they are kept as they are\n");
}

}  // namespace
}  // namespace trireme
