#include "data/mixture_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "data/token_file_writer.h"

namespace trireme {
namespace {

constexpr int64_t kSeqLen = 4;

class MixtureTest : public testing::Test {
 protected:
  MixtureTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("trireme_mixture." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~MixtureTest() override { std::filesystem::remove_all(folder_); }

  // A file whose tokens begin at `first` and count up, so that a token names its file and place.
  std::string file(const std::string& name, int32_t first, int64_t num_tokens,
                   uint64_t tokenizer_hash = 1) {
    const std::string path = (folder_ / name).string();
    std::vector<int32_t> tokens(static_cast<size_t>(num_tokens));
    std::iota(tokens.begin(), tokens.end(), first);
    auto writer = TokenFileWriter::create(path, 4000, tokenizer_hash);
    EXPECT_TRUE(writer->append(tokens).ok());
    EXPECT_TRUE(writer->finish({}).ok());
    return path;
  }

  Result<MixtureSource> mixture(uint64_t seed, const std::vector<std::string>& paths,
                                const std::vector<double>& weights) {
    std::vector<FileSource> files;
    for (const std::string& path : paths) {
      TRIREME_TRY(file, TokenFile::open(path));
      TRIREME_TRY(opened, MixtureSource::part(std::move(file), seed, files.size(), kSeqLen));
      files.push_back(std::move(opened));
    }
    return MixtureSource::make(seed, std::move(files), weights);
  }

  std::filesystem::path folder_;
};

int32_t first_of(const TokenSource& source, uint64_t sample) {
  std::vector<int32_t> inputs(kSeqLen), targets(kSeqLen);
  source.read_sample(sample, inputs, targets);
  EXPECT_EQ(targets.front(), inputs.front() + 1);
  return inputs.front();
}

TEST_F(MixtureTest, EveryFileIsReadThroughWithoutRepetitionInEachOfItsEpochs) {
  const auto source =
      mixture(3, {file("a", 0, 83), file("b", 1000, 203), file("c", 2000, 43)}, {3.0, 1.0, 0.5});
  ASSERT_TRUE(source.ok()) << source.error().message;
  std::map<std::pair<size_t, uint64_t>, std::set<int32_t>> windows;  // (file, epoch)
  std::vector<uint64_t> counts(3, 0);
  for (uint64_t sample = 0; sample < 600; ++sample) {
    const int32_t first = first_of(*source, sample);
    const size_t part = size_t(first) / 1000;
    const auto per_epoch = uint64_t(source->files()[part].sampler().num_windows());
    const bool is_new = windows[{part, counts[part]++ / per_epoch}].insert(first).second;
    ASSERT_TRUE(is_new) << "sample " << sample << " repeats " << first;
  }
  EXPECT_NEAR(double(counts[0]), 400.0, 4.0);
  EXPECT_NEAR(double(counts[1]), 600.0 / 4.5, 2.0);
  const double epochs = double(counts[0]) / double(source->files()[0].sampler().num_windows());
  EXPECT_DOUBLE_EQ(source->epochs_of(600), epochs);
}

TEST_F(MixtureTest, TheSameFileTwiceIsReadInTwoOrders) {
  const std::string path = file("a", 0, 403);
  const auto source = mixture(3, {path, path}, {1.0, 1.0});
  ASSERT_TRUE(source.ok());
  int equal = 0;
  for (uint64_t k = 0; k < 50; ++k) {
    equal +=
        source->files()[0].sampler().first_token(k) == source->files()[1].sampler().first_token(k);
  }
  EXPECT_LT(equal, 10);
}

TEST_F(MixtureTest, FilesOfDifferentTokenizersAreRefused) {
  const auto refused = mixture(3, {file("a", 0, 83), file("b", 0, 83, 2)}, {1.0, 1.0});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("different tokenizers"), std::string::npos);
}

TEST_F(MixtureTest, TokensThatTheLossLeavesOutAreReadAsInputsAndNotAsTargets) {
  for (const int64_t vocab_size : {100, 40000}) {
    const std::string path = (folder_ / "masked").string();
    auto writer = TokenFileWriter::create(path, vocab_size, 1, true);
    std::vector<int32_t> tokens(60);
    for (int32_t t = 0; t < 60; ++t) tokens[size_t(t)] = t % 3 == 0 ? t : uncounted(t);
    ASSERT_TRUE(writer->append(tokens).ok());
    ASSERT_TRUE(writer->finish({}).ok());
    const auto source = FileSource::open(path, 1, kSeqLen);
    ASSERT_TRUE(source.ok()) << source.error().message;
    EXPECT_EQ(source->file().header().token_bytes, vocab_size == 100 ? 2 : 4);
    std::vector<int32_t> inputs(kSeqLen), targets(kSeqLen);
    for (uint64_t sample = 0; sample < 30; ++sample) {
      source->read_sample(sample, inputs, targets);
      for (size_t t = 0; t < kSeqLen; ++t) {
        EXPECT_EQ(inputs[t], inputs[0] + int32_t(t));
        const int32_t next = inputs[t] + 1;
        EXPECT_EQ(targets[t], next % 3 == 0 ? next : kUncountedTarget);
      }
    }
  }
}

}  // namespace
}  // namespace trireme
