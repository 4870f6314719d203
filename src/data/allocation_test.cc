#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/allocation_count.h"
#include "data/file_source.h"
#include "data/synthetic_source.h"
#include "data/token_file_writer.h"

namespace trireme {
namespace {

// A steady step reads its samples without a heap allocation, from every source and at every
// position.
#ifdef TRIREME_COUNTS_ALLOCATIONS
TEST(TokenSource, ReadingASampleAllocatesNothing) {
  constexpr int64_t kSeqLen = 64;
  for (const int64_t vocab_size : {300, 100000}) {  // tokens of two bytes and of four bytes
    const std::string path = (std::filesystem::temp_directory_path() /
                              ("trireme_allocation_test." + std::to_string(::getpid())))
                                 .string();
    auto writer = TokenFileWriter::create(path, vocab_size, 1);
    ASSERT_TRUE(writer.ok());
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < 10000; ++token) tokens.push_back(token % int32_t(vocab_size));
    ASSERT_TRUE(writer->append(tokens).ok());
    ASSERT_TRUE(writer->finish({}).ok());
    // A chunk of a large file is verified when it is read for the first time.
    const auto file = FileSource::open(path, 7, kSeqLen, /*verified_at_open=*/0);
    const auto sequential = SequentialSource::open(path, kSeqLen);
    ASSERT_TRUE(file.ok() && sequential.ok());
    const SyntheticSource synthetic(7, vocab_size);
    std::vector<int32_t> inputs(4 * kSeqLen), targets(4 * kSeqLen);
    const TokenSource* const sources[] = {&*file, &*sequential, &synthetic};
    for (const TokenSource* source : sources) {
      const int64_t before = num_allocations;
      for (uint64_t sample = 0; sample < 1000; ++sample) {
        read_sequences(*source, sample * sample, 4, inputs, targets);
      }
      EXPECT_EQ(num_allocations, before);
    }
    std::filesystem::remove(path);
  }
}
#endif

}  // namespace
}  // namespace trireme
