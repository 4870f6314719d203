#include "data/token_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/file.h"
#include "base/philox.h"
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

  // Writes tokens 0, 1, ... modulo the vocabulary, in pieces of uneven length.
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

  void write_bytes(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  // Flips one bit of the file in place; a second call restores it.
  void flip(const std::string& file, int64_t position, int bit) const {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekg(position);
    const int byte = stream.get();
    stream.seekp(position);
    stream.put(static_cast<char>(byte ^ (1 << bit)));
    ASSERT_TRUE(stream.flush().good());
  }
  // Returns the message of the exception that read() throws, or "".
  static std::string failure_of(const TokenFile& file, int64_t offset, std::span<int32_t> out) {
    try {
      file.read(offset, out);
      return "";
    } catch (const IoError& error) {
      return error.what();
    }
  }
  // Converts a file of version 2 to version 1 with the same tokens.
  static std::string without_chunk_checksums(const std::string& bytes,
                                             const TokenFileHeader& header) {
    TokenFileHeader old = header;
    old.has_chunk_checksums = false;
    std::string start(kTokenFileHeaderBytes, '\0');
    print_token_file_header(
        old, std::as_writable_bytes(std::span(start)).first<kTokenFileHeaderBytes>());
    return start + bytes.substr(kTokenFileHeaderBytes, static_cast<size_t>(old.payload_bytes()));
  }

  std::filesystem::path folder_;
};

constexpr int64_t kNothingAtOpen = 0;  // treats the file as if it were above the limit

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

TEST_F(TokenFileTest, AFolderIsToldWhichFileToName) {
  const std::filesystem::path folder = path("prepared");
  std::filesystem::create_directories(folder);
  const auto other = TokenFile::open(folder.string());
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("`trireme data prepare` has written"), std::string::npos)
      << other.error().message;
  std::ofstream(folder / "train.tok") << "tokens";
  const auto prepared = TokenFile::open(folder.string());
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().kind, ErrorKind::Usage);
  const std::string train = "name " + folder.string() + "/train.tok";
  EXPECT_TRUE(prepared.error().message.ends_with(train)) << prepared.error().message;
  std::ofstream(folder / "val.tok") << "tokens";
  const auto both = TokenFile::open(folder.string());
  ASSERT_FALSE(both.ok());
  EXPECT_TRUE(both.error().message.ends_with(train + " or " + folder.string() + "/val.tok"))
      << both.error().message;
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

// Flips 120 bits all over a file that is too large to be verified when it is opened. A flip in the
// header is refused at once; any other flip is noticed when its chunk is read, and in no other
// chunk.
TEST_F(TokenFileTest, EveryFlipInALargeFileIsNoticedWhenItsChunkIsRead) {
  for (const int64_t vocab_size : {300, 100000}) {  // tokens of two bytes and of four bytes
    const std::string name = write("a.tok", 115000, vocab_size);
    const TokenFileHeader header = TokenFile::open(name)->header();
    const int64_t tokens_per_chunk = kTokenChunkBytes / header.token_bytes;
    const int64_t table = kTokenFileHeaderBytes + header.payload_bytes();
    ASSERT_EQ(static_cast<int64_t>(std::filesystem::file_size(name)), header.file_bytes());
    std::vector<int32_t> tokens(100);
    const auto positions = rng_key(7, "flips");
    for (uint64_t draw = 0; draw < 120; ++draw) {
      const PhiloxCounter words = philox(positions, counter_of(draw, 0));
      // A third of the flips each are in the header and in the table, which are small.
      const int64_t ends[] = {0, kTokenFileHeaderBytes, table, header.file_bytes()};
      const int64_t begin = ends[draw % 3];
      const int64_t position = begin + words[0] % (ends[draw % 3 + 1] - begin);
      flip(name, position, static_cast<int>(words[1] % 8));
      const auto file = TokenFile::open(name, kNothingAtOpen);
      EXPECT_EQ(file.ok(), draw % 3 != 0) << "byte " << position;
      const int64_t damaged_chunk = draw % 3 == 1
                                        ? (position - kTokenFileHeaderBytes) / kTokenChunkBytes
                                        : (position - table) / int64_t{sizeof(uint64_t)};
      for (int64_t chunk = 0; file.ok() && chunk < header.num_chunks(); ++chunk) {
        // Reads the last tokens of a chunk; the flip may be anywhere in it.
        const int64_t end = std::min((chunk + 1) * tokens_per_chunk, header.num_tokens);
        const int64_t first = kTokenFileHeaderBytes + chunk * kTokenChunkBytes;
        const int64_t last = kTokenFileHeaderBytes + end * header.token_bytes - 1;
        const std::string message = failure_of(*file, end - 100, tokens);
        const std::string wanted = name + ": chunk " + std::to_string(chunk) + " (bytes " +
                                   std::to_string(first) + " to " + std::to_string(last) + ")";
        EXPECT_EQ(message.starts_with(wanted), chunk == damaged_chunk) << message;
        EXPECT_EQ(message.find("trireme data prepare") != std::string::npos,
                  chunk == damaged_chunk);
        EXPECT_EQ(message.empty(), chunk != damaged_chunk) << message;
      }
      EXPECT_FALSE(TokenFile::open(name).ok()) << "byte " << position;
      EXPECT_FALSE(file.ok() && file->verify().ok()) << "byte " << position;
      flip(name, position, static_cast<int>(words[1] % 8));
    }
    EXPECT_TRUE(TokenFile::open(name).ok());
  }
}

// A chunk that is intact but not in its place.
TEST_F(TokenFileTest, ChunksThatHaveChangedPlacesAreNoticed) {
  const std::string name = write("a.tok", 4 * kTokenChunkBytes / 2, 300);
  std::string bytes = *read_text_file(name);
  const auto chunk = [&](int index) { return bytes.begin() + 64 + index * kTokenChunkBytes; };
  std::swap_ranges(chunk(1), chunk(2), chunk(2));
  const auto sum = [&](int index) { return bytes.end() - 8 * (4 - index); };
  std::swap_ranges(sum(1), sum(2), sum(2));
  write_bytes("a.tok", bytes);
  const auto file = TokenFile::open(name, kNothingAtOpen);
  ASSERT_TRUE(file.ok()) << file.error().message;
  std::vector<int32_t> tokens(10);
  for (int64_t index = 0; index < 4; ++index) {
    EXPECT_EQ(failure_of(*file, index * kTokenChunkBytes / 2, tokens).empty(),
              index == 0 || index == 3);
  }
}

TEST_F(TokenFileTest, AFileThatIsTruncatedInARunIsAnErrorWithTheByteAtWhichItEnds) {
  for (const int64_t verified_at_open : {kNothingAtOpen, TokenFile::kVerifiedAtOpen}) {
    const std::string name = write("a.tok", 100000, 300);
    const auto file = TokenFile::open(name, verified_at_open);
    ASSERT_TRUE(file.ok());
    std::vector<int32_t> tokens(5000);
    for (int64_t length = 200000; length >= 0; length -= 9973) {
      std::filesystem::resize_file(name, static_cast<uintmax_t>(length));
      const std::string message = failure_of(*file, 95000, tokens);
      EXPECT_TRUE(message.starts_with(name + ": cannot read at byte ")) << message;
      EXPECT_NE(message.find("the file ends at byte " + std::to_string(length) + ";"),
                std::string::npos)
          << length << ": " << message;
    }
  }
}

// Files of version 1 have no chunk checksums and can still be read.
TEST_F(TokenFileTest, FilesOfVersionOneAreRead) {
  const std::string name = write("a.tok", 100000, 300);
  const TokenFileHeader header = TokenFile::open(name)->header();
  const std::string old = without_chunk_checksums(*read_text_file(name), header);
  write_bytes("old.tok", old);
  for (const int64_t verified_at_open : {kNothingAtOpen, TokenFile::kVerifiedAtOpen}) {
    const auto file = TokenFile::open(path("old.tok"), verified_at_open);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_FALSE(file->header().has_chunk_checksums);
    EXPECT_EQ(file->header().payload_hash, header.payload_hash);
    EXPECT_TRUE(file->verify().ok());
    std::vector<int32_t> tokens(100000);
    file->read(0, tokens);
    for (int64_t t = 0; t < 100000; ++t) ASSERT_EQ(tokens[t], t % 300);
  }
  flip(path("old.tok"), 1000, 0);
  EXPECT_FALSE(TokenFile::open(path("old.tok")).ok());
  EXPECT_FALSE(TokenFile::open(path("old.tok"), kNothingAtOpen)->verify().ok());
  write_bytes("old.tok", old + std::string(8, '\0'));
  EXPECT_FALSE(TokenFile::open(path("old.tok")).ok());
}

// A header with a correct checksum but wrong content.
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
