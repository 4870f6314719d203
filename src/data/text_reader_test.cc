#include "data/text_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/text_input.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class TextReaderTest : public testing::Test {
 protected:
  TextReaderTest()
      : folder_(fs::temp_directory_path() /
                ("trireme_text_reader_test." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~TextReaderTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  fs::path folder_;
};

struct Collected {
  std::vector<std::string> documents;
  std::string error;
  TextReader::Report report;
  std::vector<std::string> notes;
};

Collected collect(const TextInput& input, int64_t block_bytes = 64) {
  Collected collected;
  auto reader = TextReader::open(input);
  if (!reader.ok()) {
    collected.error = reader.error().message;
    return collected;
  }
  TextBatch all;
  while (true) {
    const auto more = reader->read(all, block_bytes);
    if (!more.ok()) collected.error = more.error().message;
    if (!more.ok() || !*more) break;
  }
  size_t begin = 0;
  for (size_t end : all.document_ends) {
    collected.documents.push_back(all.text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_TRUE(!collected.error.empty() || begin == all.text.size());
  collected.report = reader->report();
  collected.notes = reader->notes();
  return collected;
}

using Documents = std::vector<std::string>;

TEST_F(TextReaderTest, BlocksOfAnySizeGiveTheSameDocuments) {
  const std::string text = write("a.txt", "first\nfile \xC3\xA9\xE9");
  const std::string lines = write("b.jsonl",
                                  "{\"text\":\"one\"}\r\n\n{\"id\":1,\"text\":\"t\\nwo\"}\n"
                                  "{\"text\":\"\"}\n{\"text\":\"last\"}");
  for (int64_t block_bytes : {1, 2, 3, 7, 64, 1 << 20}) {
    const auto all = collect({.paths = {lines, text}}, block_bytes);
    EXPECT_EQ(all.error, "");
    EXPECT_EQ(all.documents, (Documents{"one", "t\nwo", "last", "first\nfile \xC3\xA9\xE9"}));
    EXPECT_EQ(all.report.num_documents, 4);
    EXPECT_EQ(all.report.num_empty, 1);
    EXPECT_EQ(all.report.num_invalid, 1);
    EXPECT_EQ(all.report.first_invalid, text + ": byte 13");
    EXPECT_EQ(all.report.text_bytes, 3 + 4 + 4 + 14);
    EXPECT_EQ(all.notes.size(), 2u);
  }
}

TEST_F(TextReaderTest, LinesAreDocumentsWhenAsked) {
  const std::string names = write("names.txt", "emma\nolivia\r\n\nava");
  EXPECT_EQ(collect({.paths = {names}, .format = TextFormat::Lines}).documents,
            (Documents{"emma", "olivia", "ava"}));
  EXPECT_EQ(collect({.paths = {names}}).documents, (Documents{"emma\nolivia\r\n\nava"}));
}

TEST_F(TextReaderTest, FoldersAreReadInTheOrderOfNames) {
  write("d/b.txt", "B");
  write("d/a/z.txt", "AZ");
  write("d/a.jsonl", "{\"text\":\"A\"}\n");
  write("d/.hidden", "no");
  write("d/.git/config", "no");
  write("d/empty.txt", "");
  EXPECT_EQ(collect({.paths = {(folder_ / "d").string()}}).documents, (Documents{"AZ", "A", "B"}));
}

// A store lists a folder by asking all servers for its files, so it is asked once.
TEST_F(TextReaderTest, FoldersOfAStoreAreListedOnceAndReadAsThoseOfThisMachine) {
  const std::map<std::string, std::string> store = {
      {"store://s/d/", "b.txt\na/z.txt\na.jsonl\n.git/config\nempty.txt\n"},
      {"store://s/d/b.txt", "B"},
      {"store://s/d/a/z.txt", "AZ"},
      {"store://s/d/a.jsonl", "{\"text\":\"A\"}\n"},
      {"store://s/d/empty.txt", ""}};
  std::map<std::string, int> listed;
  const OpenInput open_input = [&](const std::string& name) -> Result<InputFile> {
    const auto found = store.find(name);
    if (found == store.end()) return usage(name + ": no such file");
    if (name.ends_with('/')) ++listed[name];
    return input_of_text(name, found->second);
  };
  for (const char* name : {"store://s/d", "store://s/d/"}) {
    listed.clear();
    const Collected all = collect({.paths = {name}, .open_input = open_input});
    EXPECT_EQ(all.error, "");
    EXPECT_EQ(all.documents, (Documents{"AZ", "A", "B"}));
    EXPECT_EQ(listed, (std::map<std::string, int>{{"store://s/d/", 1}})) << name;
  }
  EXPECT_EQ(collect({.paths = {"store://s/none"}, .open_input = open_input}).error,
            "store://s/none: no such file");
}

TEST_F(TextReaderTest, RefusalsNameTheFileAndTheRemedy) {
  const auto error_of = [&](const std::string& path) { return collect({.paths = {path}}).error; };
  const std::string empty = write("empty.txt", "");
  EXPECT_EQ(error_of(empty), empty + ": the file is empty");
  EXPECT_NE(error_of(folder_.string() + "/absent.txt").find("absent.txt"), std::string::npos);
  EXPECT_NE(error_of(write("a.txt.xz", "x")).find("compression that is not supported"),
            std::string::npos);
  EXPECT_NE(error_of(write("a.parquet", "x")).find("not text"), std::string::npos);
  fs::create_directories(folder_ / "void");
  EXPECT_NE(error_of((folder_ / "void").string()).find("no file with text"), std::string::npos);
  EXPECT_NE(error_of(write("e.jsonl", "\n\n")).find("no text"), std::string::npos);
  const std::string broken = write("c.jsonl", "{\"text\":\"a\"}\n{\"body\":\"b\"}\n");
  EXPECT_NE(error_of(broken).find(broken + ":2"), std::string::npos) << error_of(broken);
  EXPECT_NE(error_of(broken).find("\"body\""), std::string::npos);
  EXPECT_FALSE(collect({}).error.empty());
}

std::string gzipped(const std::string& text) {
  z_stream zlib{};
  EXPECT_EQ(deflateInit2(&zlib, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&zlib, text.size()), '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  zlib.avail_in = static_cast<uInt>(text.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  packed.erase(packed.size() - zlib.avail_out);
  deflateEnd(&zlib);
  return packed;
}

std::string zstd_packed(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::string many_lines() {
  std::string lines;
  for (int k = 0; k < 20000; ++k) {
    lines += "{\"text\":\"document " + std::to_string(k * 7919 % 100003) + "\"}\n";
  }
  return lines;
}

// Files are compressed as a whole, in two parts, and with an empty part between two parts.
TEST_F(TextReaderTest, BinaryFilesAreRefusedByNameUnlessTheyAreAskedFor) {
  const std::string good = write("good.txt", "text");
  const std::string text = write("a.txt", std::string("a\0b", 3));
  const std::string far = write("far.txt", std::string(70000, 'a') + std::string(2, '\0'));
  for (const int64_t block_bytes : {1, 2, 64, 1 << 20}) {
    EXPECT_EQ(collect({.paths = {good, text}}, block_bytes)
                  .error.rfind(text + ": is binary, not text: byte 1 is zero", 0),
              0u);
    const auto read = collect({.paths = {text}, .is_binary_read = true}, block_bytes);
    EXPECT_EQ(read.documents, (Documents{std::string("a\0b", 3)})) << read.error;
  }
  EXPECT_EQ(collect({.paths = {far}}, 1 << 10).error, "");
  const std::string weights = write("model.safetensors", "text");
  EXPECT_NE(collect({.paths = {weights}}).error.find("is not text"), std::string::npos);
  EXPECT_EQ(collect({.paths = {weights}, .is_binary_read = true}).documents, (Documents{"text"}));
}

TEST_F(TextReaderTest, AFolderOfCheckpointsIsNoText) {
  write("all/notes.txt", "text");
  write("all/runs/a/config.resolved.toml", "[model]\n");
  write("all/runs/a/metrics.jsonl", "{\"text\":\"no\"}\n");
  for (const char* folder : {"all", "all/runs/a"}) {
    const auto refused = collect({.paths = {(folder_ / folder).string()}});
    EXPECT_EQ(
        refused.error.rfind((folder_ / "all/runs/a").string() + ": is a run or a checkpoint", 0),
        0u)
        << refused.error;
  }
  EXPECT_EQ(collect({.paths = {(folder_ / "all").string()}, .is_binary_read = true}).error, "");
}

TEST_F(TextReaderTest, PackedFilesAreReadAsTheTextInThem) {
  const std::string lines = many_lines();
  const auto expected = collect({.paths = {write("a.jsonl", lines)}}, 1 << 20);
  const std::string first = lines.substr(0, 1234), rest = lines.substr(1234);
  for (const bool is_gzip : {true, false}) {
    const auto pack = is_gzip ? gzipped : zstd_packed;
    const std::string name = is_gzip ? "b.jsonl.gz" : "b.jsonl.zst";
    for (const std::string& packed :
         {pack(lines), pack(first) + pack(rest), pack(first) + pack("") + pack(rest)}) {
      for (int64_t block_bytes : {777, 1 << 20}) {
        const auto all = collect({.paths = {write(name, packed)}}, block_bytes);
        EXPECT_EQ(all.error, "");
        EXPECT_EQ(all.documents, expected.documents);
      }
    }
  }
}

TEST_F(TextReaderTest, PackedFilesThatEndEarlyOrAreDamagedAreRefused) {
  const std::string lines = many_lines();
  for (const bool is_gzip : {true, false}) {
    const std::string packed = is_gzip ? gzipped(lines) : zstd_packed(lines);
    const std::string name = is_gzip ? "c.txt.gz" : "c.txt.zst";
    for (const size_t size : {size_t{1}, size_t{10}, packed.size() / 2, packed.size() - 1}) {
      const auto cut = collect({.paths = {write(name, packed.substr(0, size))}}, 1 << 20);
      EXPECT_NE(cut.error.find("truncated"), std::string::npos)
          << name << " " << size << ": " << cut.error;
      EXPECT_NE(cut.error.find(name), std::string::npos);
    }
    std::string damaged = packed;
    damaged[packed.size() / 2] ^= 0x55;
    damaged[packed.size() / 2 + 1] ^= 0x55;
    const auto read = collect({.paths = {write(name, damaged)}}, 1 << 20);
    EXPECT_FALSE(read.error.empty() && is_gzip) << name;  // zstd writes no checksum by default
    EXPECT_FALSE(collect({.paths = {write(name, lines)}}).error.empty());
  }
}

// This frame declares 256 bytes and has none. The library would refuse it as a whole but not in
// pieces.
TEST_F(TextReaderTest, WhatIsRefusedDoesNotDependOnTheSizeOfBlocks) {
  const std::string frame("\x28\xb5\x2f\xfd\x60\0\0\1\0\0", 10);
  const std::string path = write("e.txt.zst", frame);
  const std::string expected = collect({.paths = {path}}, 66).error;
  for (const int64_t block_bytes : {1, 255, 256, 1 << 20}) {
    EXPECT_EQ(collect({.paths = {path}}, block_bytes).error, expected) << block_bytes;
  }
}

// From every position at which reading resumes, the rest of the text is read.
TEST_F(TextReaderTest, ReadingResumesAtAnyPosition) {
  std::string lines, text;
  for (int k = 0; k < 40; ++k) {
    lines += "{\"text\":\"document " + std::to_string(k) + "\"}\n";
    text += "word" + std::to_string(k) + " ";
  }
  const TextInput input{.paths = {write("a.jsonl", lines), write("b.txt", text),
                                  write("c.jsonl.gz", gzipped(lines)),
                                  write("d.txt.zst", zstd_packed(text))}};
  auto whole = TextReader::open(input);
  TextBatch all;
  while (*whole->read(all, 100)) {
  }
  auto first = TextReader::open(input);
  TextBatch batch;
  std::string taken;
  while (*first->read(batch, 50)) {
    // As an encoder does: uses everything except some bytes of an open document.
    const size_t unused = std::min<size_t>(5, batch.text.size() - batch.open_begin());
    taken += batch.text.substr(0, batch.text.size() - unused);
    batch.drop_front(batch.text.size() - unused);
    auto second = TextReader::open(input);
    const auto position = first->position(static_cast<int64_t>(unused));
    ASSERT_TRUE(second->seek(position, first->report()).ok());
    TextBatch rest;
    while (*second->read(rest, 77)) {
    }
    ASSERT_EQ(taken + rest.text, all.text);
  }
}

}  // namespace
}  // namespace trireme
