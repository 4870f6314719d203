#include "data/token_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "data/file_source.h"
#include "data/token_file_writer.h"

namespace trireme {
namespace {

class TokenFileTest : public testing::Test {
 protected:
  TokenFileTest() {
    folder_ = std::filesystem::temp_directory_path() /
              ("trireme_token_file_test." + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~TokenFileTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Tokens 0, 1, ... modulo the vocabulary, written in pieces of uneven length.
  std::string write(const std::string& name, int64_t num_tokens, int64_t vocab_size) const {
    auto writer = TokenFileWriter::create(path(name), vocab_size, 0xFEED);
    EXPECT_TRUE(writer.ok());
    std::vector<int32_t> piece;
    for (int64_t token = 0; token < num_tokens; ++token) {
      piece.push_back(static_cast<int32_t>(token % vocab_size));
      if (token % 7 == 3 || token + 1 == num_tokens) {
        EXPECT_TRUE(writer->append(piece).ok());
        piece.clear();
      }
    }
    EXPECT_TRUE(writer->finish({.num_documents = 3, .text_bytes = 12345}).ok());
    return path(name);
  }

  std::filesystem::path folder_;
};

TEST_F(TokenFileTest, ReadsWhatWasWrittenInBothWidths) {
  for (int64_t vocab_size : {5, 257, 65536, 65537, 100000}) {
    auto file = TokenFile::open(write("a.tok", 100000, vocab_size));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->header().token_bytes, vocab_size <= 65536 ? 2 : 4);
    EXPECT_EQ(file->vocab_size(), vocab_size);
    EXPECT_EQ(file->num_tokens(), 100000);
    EXPECT_EQ(file->header().num_documents, 3);
    EXPECT_EQ(file->header().text_bytes, 12345);
    EXPECT_EQ(file->header().tokenizer_hash, 0xFEEDu);
    std::vector<int32_t> tokens(1000);
    for (int64_t offset : {0, 1, 65530, 99000}) {
      file->read(offset, tokens);
      for (int64_t t = 0; t < 1000; ++t) EXPECT_EQ(tokens[t], (offset + t) % vocab_size);
    }
    EXPECT_THROW(file->read(99001, tokens), ContractError);
    EXPECT_THROW(file->read(-1, tokens), ContractError);
  }
}

TEST_F(TokenFileTest, TokensOutsideTheVocabularyAreRefused) {
  for (int32_t token : {-1, 10, 65536 + 3}) {
    auto writer = TokenFileWriter::create(path("a.tok"), 10, 0);
    ASSERT_TRUE(writer.ok());
    EXPECT_FALSE(writer->append(std::vector<int32_t>{1, token}).ok());
  }
  EXPECT_FALSE(TokenFileWriter::create(path("a.tok"), 0, 0).ok());
  EXPECT_FALSE(TokenFileWriter::create(path("a.tok"), int64_t{1} << 31, 0).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "an unfinished file was left behind";
}

TEST_F(TokenFileTest, EveryFlippedByteTruncationAndAppendixIsRefused) {
  const std::string original = *read_text_file(write("a.tok", 50, 100));
  const auto opens = [&](const std::string& bytes) {
    std::ofstream(path("b.tok"), std::ios::binary) << bytes;
    const auto file = TokenFile::open(path("b.tok"));
    if (!file.ok()) {
      EXPECT_EQ(file.error().kind, ErrorKind::Damaged);
      EXPECT_NE(file.error().message.find(path("b.tok")), std::string::npos);
    }
    return file.ok();
  };
  EXPECT_TRUE(opens(original));
  for (size_t position = 0; position < original.size(); ++position) {
    std::string damaged = original;
    damaged[position] ^= 0x10;
    EXPECT_FALSE(opens(damaged)) << "byte " << position;
    EXPECT_FALSE(opens(original.substr(0, position))) << position << " bytes";
  }
  EXPECT_FALSE(opens(original + "xx"));
  const auto absent = TokenFile::open(path("absent.tok"));
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().kind, ErrorKind::Usage);
  EXPECT_NE(absent.error().message.find("trireme data prepare"), std::string::npos);
  EXPECT_FALSE(TokenFile::open(folder_.string()).ok());
}

// A header that is right by itself, with the right checksum, and wrong.
TEST_F(TokenFileTest, VocabularyLargerThanTheTypeIsRefused) {
  std::array<std::byte, kTokenFileHeaderBytes> bytes;
  print_token_file_header({.token_bytes = 2, .vocab_size = 65537}, bytes);
  const auto header = parse_token_file_header(bytes, kTokenFileHeaderBytes);
  ASSERT_FALSE(header.ok());
  EXPECT_NE(header.error().message.find("65537"), std::string::npos);
}

TEST_F(TokenFileTest, SequentialSourceReadsTheFileFromItsStart) {
  const auto source = SequentialSource::open(write("a.tok", 101, 1000), 10);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->num_windows(), 10);
  std::vector<int32_t> inputs(10), targets(10);
  for (uint64_t sample = 0; sample < 20; ++sample) {
    source->read_sample(sample, inputs, targets);
    for (int32_t t = 0; t < 10; ++t) {
      EXPECT_EQ(inputs[t], static_cast<int32_t>(sample % 10) * 10 + t);
      EXPECT_EQ(targets[t], inputs[t] + 1);
    }
  }
}

TEST_F(TokenFileTest, FileSourceReadsTheSamplersWindows) {
  const auto source = FileSource::open(write("a.tok", 500, 1000), 5, 16);
  ASSERT_TRUE(source.ok());
  std::vector<int32_t> inputs(16), targets(16);
  for (uint64_t sample = 0; sample < 100; ++sample) {
    source->read_sample(sample, inputs, targets);
    for (int32_t t = 0; t < 16; ++t) {
      EXPECT_EQ(inputs[t], source->sampler().first_token(sample) + t);
      EXPECT_EQ(targets[t], inputs[t] + 1);
    }
  }
  const auto too_short = FileSource::open(path("a.tok"), 5, 500);
  ASSERT_FALSE(too_short.ok());
  EXPECT_NE(too_short.error().message.find("501"), std::string::npos);
}

}  // namespace
}  // namespace trireme
