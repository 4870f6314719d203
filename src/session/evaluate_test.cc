#include "session/evaluate.h"

#include <cmath>
#include <filesystem>
#include <tuple>

#include "checkpoint/find_checkpoint.h"
#include "data/token_file_writer.h"
#include "data/window_source.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

constexpr int64_t kSeqLen = 32;

class Evaluate : public SessionTest {
 protected:
  void SetUp() override {
    SessionTest::SetUp();
    reports_of(tiny_run(ComputeChoice::Fp32, 3), "run");
    checkpoint_.emplace(find_checkpoint((root_ / "run").string()).value());
  }

  static std::vector<int32_t> tokens(int64_t count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = int32_t(t * t * 5 % 61);
    return tokens;
  }

  static RunConfig layout(int dp, int tp, int pp, int cp, int64_t micro = 1) {
    RunConfig config = evaluation_config(tiny_run(ComputeChoice::Fp32, 3));
    config.parallel.dp = dp;
    config.parallel.tp = tp;
    config.parallel.pp = pp;
    config.parallel.cp = cp;
    config.batch.micro_sequences = micro;
    config.run.threads_per_rank = 1;
    return config;
  }

  EvalResult of(const TokenSource& data, int64_t windows, const RunConfig& config) const {
    HostFacts host;
    host.num_cores = 2;
    const auto result = evaluate_checkpoint({.checkpoint = *checkpoint_,
                                             .config = config,
                                             .host = host,
                                             .data = data,
                                             .num_sequences = windows});
    EXPECT_TRUE(result.ok()) << result.error().message;
    return result.ok() ? *result : EvalResult{};
  }

  std::optional<Checkpoint> checkpoint_;
};

TEST_F(Evaluate, EveryTokenButTheFirstIsPredictedOnce) {
  for (const int64_t count : {2, 31, 32, 33, 34, 65, 200}) {
    const WindowSource data(tokens(count), 64, kSeqLen);
    EXPECT_EQ(of(data, data.num_windows(), layout(1, 1, 1, 1)).valid_tokens, count - 1) << count;
  }
}

// If a text is cut between windows, the sums of its parts add up to that of the text. The last
// window is shorter.
TEST_F(Evaluate, PartsAddUpToTheWhole) {
  const std::vector<int32_t> all = tokens(150);
  const WindowSource whole(all, 64, kSeqLen);
  const EvalResult want = of(whole, whole.num_windows(), layout(1, 1, 1, 1));
  EvalResult sum;
  for (size_t begin = 0; begin + 1 < all.size(); begin += kSeqLen) {
    const size_t end = std::min(all.size(), begin + kSeqLen + 1);
    const WindowSource part({all.begin() + int64_t(begin), all.begin() + int64_t(end)}, 64,
                            kSeqLen);
    const EvalResult got = of(part, 1, layout(1, 1, 1, 1));
    sum.loss_sum += got.loss_sum;
    sum.valid_tokens += got.valid_tokens;
    sum.num_hits += got.num_hits;
  }
  EXPECT_EQ(sum.valid_tokens, want.valid_tokens);
  EXPECT_EQ(sum.num_hits, want.num_hits);
  EXPECT_NEAR(sum.loss_sum, want.loss_sum, 1e-9 * want.loss_sum);
}

TEST_F(Evaluate, EveryLayoutHasTheSameNumbers) {
  const WindowSource data(tokens(170), 64, kSeqLen);  // 6 windows, the last of 9 targets
  const EvalResult one = of(data, data.num_windows(), layout(1, 1, 1, 1));
  EXPECT_GT(one.num_hits, 0);
  for (const auto& [dp, tp, pp, cp] :
       {std::tuple(2, 1, 1, 1), std::tuple(4, 1, 1, 1), std::tuple(1, 1, 2, 1),
        std::tuple(2, 1, 2, 1), std::tuple(1, 2, 1, 1), std::tuple(1, 1, 1, 2)}) {
    SCOPED_TRACE(fmt::format("dp {} tp {} pp {} cp {}", dp, tp, pp, cp));
    const EvalResult got = of(data, data.num_windows(), layout(dp, tp, pp, cp));
    EXPECT_EQ(got.valid_tokens, one.valid_tokens);
    EXPECT_EQ(got.num_hits, one.num_hits);
    if (tp == 1 && cp == 1) {
      EXPECT_EQ(got.loss_sum, one.loss_sum);
    }
    EXPECT_NEAR(got.loss_sum, one.loss_sum, 1e-5 * one.loss_sum);
  }
  for (const int64_t micro : {2, 4}) {
    const EvalResult got = of(data, data.num_windows(), layout(1, 1, 1, 1, micro));
    EXPECT_EQ(got.num_hits, one.num_hits);
    EXPECT_NEAR(got.loss_sum, one.loss_sum, 1e-9 * one.loss_sum);
  }
}

TEST_F(Evaluate, ATokenFileHasTheNumbersOfItsTokens) {
  const std::string path = (root_ / "val.tok").string();
  auto writer = TokenFileWriter::create(path, 64, 1);
  ASSERT_TRUE(writer.ok() && writer->append(tokens(100)).ok() && writer->finish({}).ok());
  const TokenFile file = TokenFile::open(path).value();
  const WindowSource from_file(file, kSeqLen), from_memory(tokens(100), 64, kSeqLen);
  const EvalResult a = of(from_file, 4, layout(1, 1, 1, 1));
  const EvalResult b = of(from_memory, 4, layout(1, 1, 1, 1));
  EXPECT_EQ(a.loss_sum, b.loss_sum);
  EXPECT_EQ(a.num_hits, b.num_hits);
}

// A mask and its opposite keep every target once between them.
TEST_F(Evaluate, ALossMaskLeavesOutWhatTheOppositeMaskCounts) {
  const std::vector<int32_t> all = tokens(100);
  const auto of_mask = [&](bool keeps_even) {
    std::vector<int32_t> masked = all;
    for (size_t t = 0; t < masked.size(); ++t) {
      if ((t % 2 == 0) != keeps_even) masked[t] = uncounted(masked[t]);
    }
    const std::string path = (root_ / (keeps_even ? "even.tok" : "odd.tok")).string();
    auto writer = TokenFileWriter::create(path, 64, 1, true);
    EXPECT_TRUE(writer.ok() && writer->append(masked).ok() && writer->finish({}).ok());
    const TokenFile file = TokenFile::open(path).value();
    return of(WindowSource(file, kSeqLen), 4, layout(1, 1, 1, 1));
  };
  const EvalResult whole = of(WindowSource(all, 64, kSeqLen), 4, layout(1, 1, 1, 1));
  const EvalResult even = of_mask(true), odd = of_mask(false);
  EXPECT_EQ(even.valid_tokens, 49);
  EXPECT_EQ(odd.valid_tokens, 50);
  EXPECT_EQ(even.num_hits + odd.num_hits, whole.num_hits);
  EXPECT_NEAR(even.loss_sum + odd.loss_sum, whole.loss_sum, 1e-6 * whole.loss_sum);
}

}  // namespace
}  // namespace trireme
