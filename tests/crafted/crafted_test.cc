#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/bounded_child.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats.h"
#include "mutation.h"

namespace trireme {
namespace {

constexpr unsigned kDeadlineS = 120;  // for a batch, on a busy machine
constexpr int64_t kMostBytes = int64_t{512} << 20;
constexpr int kBatch = 20;

class CraftedFiles : public testing::Test {
 protected:
  CraftedFiles()
      : root_((std::filesystem::temp_directory_path() /
               ("trireme_crafted." + std::to_string(::getpid())))
                  .string()) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~CraftedFiles() override { std::filesystem::remove_all(root_); }

  // Reads the files `begin` to `end` of a format. A file depends only on the format's name and the
  // file's number.
  static std::string read_batch(const CraftedFormat& format, const std::string& original,
                                uint64_t begin, uint64_t end) {
    int refused = 0;
    for (uint64_t number = begin; number < end; ++number) {
      std::ofstream(format.folder + ".case") << format.name << " file " << number;
      CraftedRandom random(hash64(format.name) % 1000003 + number);
      std::string content = mutated(original, random);
      if (format.seal && random.below(2) == 0) content = format.seal(std::move(content));
      const std::string path = format.folder + "/" + format.file;
      std::filesystem::remove(path);
      std::ofstream(path, std::ios::binary) << content;
      const std::string why = format.read();
      if (why.size() > 100000)
        return fmt::format("file {}: a message of {} bytes", number, why.size());
      refused += why.empty() ? 0 : 1;
    }
    return fmt::format("{} refused", refused);
  }

  void read_all(uint64_t files_of_format) {
    for (const CraftedFormat& format : crafted_formats(root_)) {
      const std::string path = format.folder + "/" + format.file;
      const std::string original = read_text_file(path).value();
      const ChildOutcome whole = run_in_child([&] { return format.read(); }, kDeadlineS);
      EXPECT_EQ(whole.failure + whole.output, "")
          << format.name << " does not read as it was written";
      for (uint64_t begin = 0; begin < files_of_format; begin += kBatch) {
        const uint64_t end = std::min<uint64_t>(begin + kBatch, files_of_format);
        const ChildOutcome outcome =
            run_in_child([&] { return read_batch(format, original, begin, end); }, kDeadlineS);
        const auto last = read_text_file(format.folder + ".case");
        const std::string where = last.ok() ? *last : format.name;
        EXPECT_EQ(outcome.failure, "") << where;
        EXPECT_TRUE(outcome.output.ends_with("refused")) << where << ": " << outcome.output;
        if (kMeasuresMemory) {
          EXPECT_LT(outcome.peak_bytes, kMostBytes) << where;
        }
        num_files_ += end - begin;
      }
    }
  }

  std::string root_;
  uint64_t num_files_ = 0;
};

class Crafted : public CraftedFiles {};
class CraftedInFull : public CraftedFiles {};

TEST_F(Crafted, FilesOfEveryFormatAreReadOrRefused) { read_all(20); }

TEST_F(CraftedInFull, FilesOfEveryFormatAreReadOrRefused) {
  read_all(200);
  EXPECT_GE(num_files_, 1600u);
}

}  // namespace
}  // namespace trireme
