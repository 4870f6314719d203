#include "data/foreign_token_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/file.h"
#include "data/token_file_writer.h"
#include "tokenizer/byte_tokenizer.h"

namespace trireme {
namespace {

class ForeignTokenFile : public testing::Test {
 protected:
  ForeignTokenFile()
      : folder_(std::filesystem::temp_directory_path() /
                ("trireme_foreign_tokens." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ForeignTokenFile() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  // Makes a token file of our own with tokens from the whole vocabulary.
  TokenFile make(int64_t vocab_size, int64_t num_tokens) const {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < num_tokens; ++i) tokens.push_back(int32_t(i * 7919 % vocab_size));
    auto writer = TokenFileWriter::create(path("a.tok"), vocab_size, 17);
    EXPECT_TRUE(writer->append(tokens).ok() && writer->finish({}).ok());
    return std::move(TokenFile::open(path("a.tok"))).value();
  }
  std::filesystem::path folder_;
};

std::vector<int32_t> tokens_of(const TokenFile& file) {
  std::vector<int32_t> tokens(static_cast<size_t>(file.num_tokens()));
  file.read(0, tokens);
  return tokens;
}

TEST_F(ForeignTokenFile, TokensComeBackFromEveryFormatAndWidth) {
  for (const int64_t vocab_size : {257, 65536, 65537, 128256}) {
    for (const ForeignTokens format : {ForeignTokens::NanoGpt, ForeignTokens::Llmc}) {
      const TokenFile file = make(vocab_size, 3001);
      const Status written = export_tokens(file, format, path("a.bin"));
      if (format == ForeignTokens::NanoGpt && vocab_size > 65536) {
        EXPECT_EQ(written.error().kind, ErrorKind::Infeasible);
        continue;
      }
      ASSERT_TRUE(written.ok()) << written.error().message;
      const int64_t width = vocab_size > 65536 ? 4 : 2;
      EXPECT_EQ(int64_t(std::filesystem::file_size(path("a.bin"))),
                3001 * width + (format == ForeignTokens::Llmc ? 1024 : 0));
      const auto header = import_tokens(path("a.bin"), {.vocab_size = vocab_size}, path("b.tok"));
      ASSERT_TRUE(header.ok()) << header.error().message;
      EXPECT_EQ(tokens_of(*TokenFile::open(path("b.tok"))), tokens_of(file));
    }
  }
}

TEST_F(ForeignTokenFile, ATokenizerCountsDocumentsAndText) {
  const ByteTokenizer tokenizer;
  const uint16_t tokens[] = {'a', 'b', 256, 'c', 256};
  write("train.bin", {reinterpret_cast<const char*>(tokens), sizeof tokens});
  const auto header = import_tokens(path("train.bin"), {257, &tokenizer}, path("train.tok"));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->num_documents, 2);
  EXPECT_EQ(header->text_bytes, 3);
  EXPECT_EQ(header->tokenizer_hash, tokenizer.hash());
  const auto outside = import_tokens(path("train.bin"), {.vocab_size = 200}, path("other.tok"));
  EXPECT_EQ(outside.error().kind, ErrorKind::Damaged);
  EXPECT_NE(outside.error().message.find("token 256 at position 2"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("other.tok")));
}

TEST_F(ForeignTokenFile, DamageIsRefused) {
  ASSERT_TRUE(export_tokens(make(300, 100), ForeignTokens::Llmc, path("a.bin")).ok());
  const std::string whole = read_text_file(path("a.bin")).value();
  const auto parse = [](const std::string& bytes) {
    return parse_foreign_tokens(std::as_bytes(std::span(bytes)), int64_t(bytes.size()));
  };
  EXPECT_TRUE(parse(whole).ok());
  for (size_t size = 4; size < whole.size(); size += 5)
    EXPECT_FALSE(parse(whole.substr(0, size)).ok()) << size;
  std::string version = whole;
  version[4] = 2;
  EXPECT_EQ(parse(version).error().kind, ErrorKind::Infeasible);
  EXPECT_FALSE(parse("").ok());
  EXPECT_FALSE(parse("abc").ok());
}

}  // namespace
}  // namespace trireme
