#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/load.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class DamageTest : public FolderTest {
 protected:
  DamageTest() {
    const auto saved = SmallState(1).save(root(), {.max_shard_bytes = 32});
    EXPECT_TRUE(saved.ok()) << message_of(saved);
    folder_ = root() + "/step-000001";
    for (const auto& entry : fs::directory_iterator(folder_)) files_.push_back(entry.path());
  }

  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // Returns the problem that opening or else verifying reports; "" if none is noticed.
  std::string problem() const {
    const auto checkpoint = Checkpoint::open(folder_);
    if (!checkpoint.ok()) {
      EXPECT_EQ(checkpoint.error().kind, ErrorKind::Damaged) << checkpoint.error().message;
      return checkpoint.error().message;
    }
    const auto problems = checkpoint->verify(1);
    return problems.empty() ? "" : problems.front();
  }

  // Replaces `from` by `to` in the index and corrects its checksum.
  void rewrite_index(const std::string& from, const std::string& to) const {
    std::string text = *read_text_file(folder_ + "/index.json");
    const size_t place = text.find(from);
    ASSERT_NE(place, std::string::npos) << from << " is not in " << text;
    text.replace(place, from.size(), to);
    const std::string key = ",\n\"checksum\":\"";
    text = text.substr(0, text.rfind(key));
    write(folder_ + "/index.json", text + key + hex64(hash64(text)) + "\"}\n");
  }

  std::string folder_;
  std::vector<fs::path> files_;
};

TEST_F(DamageTest, EveryChangedByteOfEveryFileIsNoticedAndTheFileNamed) {
  int64_t num_bytes = 0;
  for (const fs::path& file : files_) {
    const std::string original = *read_text_file(file.string());
    for (size_t at = 0; at < original.size(); ++at) {
      for (const char mask : {'\x01', '\x20', '\x80'}) {
        std::string bytes = original;
        bytes[at] = static_cast<char>(bytes[at] ^ mask);
        write(file, bytes);
        const std::string message = problem();
        ASSERT_NE(message.find(file.filename().string()), std::string::npos)
            << file << " byte " << at << " xor " << int(mask) << ": \"" << message << '"';
        ++num_bytes;
      }
    }
    write(file, original);
    ASSERT_EQ(problem(), "");
  }
  EXPECT_GT(num_bytes, 3000);
}

// Another program truncates a shard between opening and reading. The message names the byte, and no
// signal is raised.
TEST_F(DamageTest, AShardThatIsTruncatedWhileItIsOpenIsNamedWithTheByteAtWhichItEnds) {
  for (const fs::path& file : files_) {
    if (file.extension() != ".safetensors") continue;
    const std::string original = *read_text_file(file.string());
    for (size_t size = 0; size < original.size(); size += 3) {
      const auto checkpoint = Checkpoint::open(folder_);
      ASSERT_TRUE(checkpoint.ok()) << message_of(checkpoint);
      fs::resize_file(file, size);
      const std::string end = "ends at byte " + std::to_string(size) + ";";
      const auto problems = checkpoint->verify(2);
      ASSERT_FALSE(problems.empty()) << size;
      EXPECT_EQ(problems.front().find(file.string() + ": cannot read at byte "), 0u);
      EXPECT_NE(problems.front().find(end), std::string::npos) << problems.front();
      write(file, original);
    }
  }
  // Truncates the file after the checksums were compared, before the elements are copied.
  const auto checkpoint = Checkpoint::open(folder_);
  ASSERT_TRUE(checkpoint.ok() && checkpoint->verify(1).empty());
  for (const fs::path& file : files_) {
    if (file.extension() == ".safetensors") fs::resize_file(file, 0);
  }
  std::vector<float> weight(12);
  const TensorRequest request{"layers.0.attn.wq", Shape{3, 4}, DType::F32,
                              Slice::whole(Shape{3, 4}), weight.data()};
  const Status read = checkpoint->read(std::span(&request, 1), {.allow_nonfinite = true});
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::Damaged);
  EXPECT_NE(read.error().message.find("the file ends at byte 0;"), std::string::npos);
}

TEST_F(DamageTest, EveryTruncationAndAppendixIsRefusedAtOpening) {
  for (const fs::path& file : files_) {
    const std::string original = *read_text_file(file.string());
    for (size_t size = 0; size < original.size(); ++size) {
      write(file, original.substr(0, size));
      ASSERT_FALSE(Checkpoint::open(folder_).ok()) << file << " cut to " << size;
    }
    write(file, original + '\0');
    EXPECT_FALSE(Checkpoint::open(folder_).ok()) << file;
    write(file, original + original);
    EXPECT_FALSE(Checkpoint::open(folder_).ok()) << file;
    write(file, original);
  }
}

TEST_F(DamageTest, AMissingFileIsNamed) {
  for (const fs::path& file : files_) {
    const std::string original = *read_text_file(file.string());
    fs::remove(file);
    EXPECT_NE(problem().find(file.filename().string()), std::string::npos) << file;
    write(file, original);
  }
}

TEST_F(DamageTest, AShardOfAnotherStepIsRefused) {
  ASSERT_TRUE(SmallState(2).save(root(), {.max_shard_bytes = 32}).ok());
  for (const fs::path& file : files_) {
    if (file.extension() != ".safetensors") continue;
    const std::string original = *read_text_file(file.string());
    write(file, *read_text_file(root() + "/step-000002/" + file.filename().string()));
    EXPECT_NE(problem().find("checksum"), std::string::npos) << file;
    write(file, original);
  }
}

TEST_F(DamageTest, AnIndexThatContradictsItselfIsRefusedWithTheReason) {
  struct Case {
    const char *from, *to, *message;
  };
  const std::string original = *read_text_file(folder_ + "/index.json");
  for (const Case& c : std::vector<Case>{
           {"\"version\":1", "\"version\":2", "version 2 of the format"},
           {"trireme-checkpoint", "another-checkpoint", "not the index of a checkpoint"},
           {"\"step\":1", "\"step\":-1", "step: not a count"},
           {"\"step\":1", "\"step\":1.5", "step: not a count"},
           {"\"step\":1", "\"step\":1,\"step\":1", "the key \"step\" twice"},
           {"\"step\":1,", "", "no key \"step\""},
           {"\"F32\"", "\"F33\"", "unknown dtype"},
           {"\"F32\"", "\"BF16\"", "does not hold"},
           {"\"shape\":[3,4]", "\"shape\":[3,5]", "are in no slice"},
           {"\"shape\":[3,4]", "\"shape\":[2,4]", "lies outside"},
           {"\"shape\":[3,4]", "\"shape\":[3,4,1,1,1]", "more than four dims"},
           {"\"shape\":[3,4]", "\"shape\":[4294967296,4294967296]", "more than 2^63 bytes"},
           {"\"begin\":[0,2]", "\"begin\":[0,1]", "overlap"},
           {"\"begin\":[0,2]", "\"begin\":[0]", "lies outside"},
           {"\"file\":\"shard-", "\"file\":\"../shard-", "is not a file name in this folder"},
           {"\"file\":\"shard-", "\"file\":\"other-", "which is not listed"},
           {"\"offset\":", "\"offset\":1", "reaches over the end"},
           {"\"tensors\":{", "\"tensors\":{\"x\":[],", "not an object"},
           {"\"attached\":{", "\"attached\":[[[[[[[[[[]]]]]]]]],\"x\":{", "deeper than 8"},
       }) {
    rewrite_index(c.from, c.to);
    const auto checkpoint = Checkpoint::open(folder_);
    ASSERT_FALSE(checkpoint.ok()) << c.to;
    EXPECT_EQ(checkpoint.error().kind, ErrorKind::Damaged);
    EXPECT_NE(checkpoint.error().message.find(c.message), std::string::npos)
        << c.to << ": " << checkpoint.error().message;
    write(folder_ + "/index.json", original);
  }
}

TEST_F(DamageTest, ForeignFoldersAreRefused) {
  EXPECT_FALSE(Checkpoint::open(root()).ok());
  EXPECT_FALSE(Checkpoint::open(root() + "/absent").ok());
  EXPECT_FALSE(Checkpoint::open(folder_ + "/index.json").ok());
  write(folder_ + "/index.json", "");
  EXPECT_NE(problem().find("truncated, or not the index"), std::string::npos);
  write(folder_ + "/index.json", R"({"metadata":{"total_size":1},"weight_map":{}})");
  EXPECT_NE(problem().find("truncated, or not the index"), std::string::npos);
}

TEST_F(DamageTest, TheNewestCheckpointThatOpensIsFoundAndTheOthersAreSaid) {
  EXPECT_EQ(find_latest_checkpoint(root() + "/absent")->path, "");
  for (int64_t step : {2, 3, 1000000}) ASSERT_TRUE(SmallState(step).save(root(), {.keep = 0}).ok());
  fs::create_directories(root() + "/step-1");  // not a name that we write
  fs::create_directories(root() + "/step-00000x");
  fs::create_directories(root() + "/step-000009");  // empty folder
  fs::rename(root() + "/step-000003", root() + "/step-000004");
  EXPECT_EQ(find_latest_checkpoint(root())->step, 1000000);
  const auto latest = find_latest_checkpoint(root(), 1000000);
  ASSERT_TRUE(latest.ok());
  EXPECT_EQ(latest->step, 2);
  EXPECT_EQ(latest->path, root() + "/step-000002");
  ASSERT_EQ(latest->skipped.size(), 2u);
  EXPECT_NE(latest->skipped[0].find("step-000009/index.json: cannot open"), std::string::npos);
  EXPECT_NE(latest->skipped[1].find("step-000004: is of step 3"), std::string::npos);
}

}  // namespace
}  // namespace trireme
