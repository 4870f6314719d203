#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "data/sampler.h"
#include "data/token_file_writer.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

constexpr int64_t kTokensOfSample = 32;

// Damages token files while a run reads them.
class TokenDamage : public SessionTest {
 protected:
  std::string file() const { return (root_ / "train.tok").string(); }

  void write_tokens(int64_t num_tokens) const {
    std::filesystem::create_directories(root_);
    auto writer = TokenFileWriter::create(file(), 64, 1);
    std::vector<int32_t> tokens(static_cast<size_t>(num_tokens));
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = static_cast<int32_t>(t * t % 61);
    ASSERT_TRUE(writer.ok() && writer->append(tokens).ok() && writer->finish({}).ok());
  }

  RunConfig run_of(int ranks) const {
    RunConfig config = tiny_run(ComputeChoice::Fp32, 1000);
    config.data.source = DataSource::Files;
    config.data.train = file();
    config.batch.global_sequences = 2;
    config.parallel.dp = ranks;
    return config;
  }

  // Runs until the run fails and returns its error. `damage` is called after the first step.
  Error failure_of(const RunConfig& config, const std::function<void()>& damage) const {
    class AfterStep : public RunObserver {
     public:
      explicit AfterStep(const std::function<void()>& damage) : damage_(damage) {}
      void on_step(const StepReport& report) override {
        if (report.step == 1) damage_();
      }

     private:
      const std::function<void()>& damage_;
    } observer(damage);
    const std::atomic<int> no_signals = 0;
    HostFacts host;
    host.num_cores = 2;
    const Result<SessionResult> result = run_session({.config = config,
                                                      .out_dir = (root_ / "run").string(),
                                                      .host = host,
                                                      .hardware = hardware_,
                                                      .stop_signals = no_signals,
                                                      .observers = {&observer}});
    EXPECT_FALSE(result.ok());
    return result.ok() ? Error{} : result.error();
  }

  // Returns the last line of the metrics.
  std::string last_event() const {
    std::string text = read_text_file((root_ / "run" / "metrics.jsonl").string()).value();
    text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  void expect_recorded(const Error& error, const std::string& what) const {
    EXPECT_EQ(error.kind, ErrorKind::Damaged);
    EXPECT_NE(error.message.find(file() + ": " + what), std::string::npos) << error.message;
    EXPECT_TRUE(last_event().starts_with("{\"event\":\"failure\"")) << last_event();
    EXPECT_NE(last_event().find(file() + ": " + what), std::string::npos) << last_event();
  }
};

TEST_F(TokenDamage, AFileThatIsTruncatedInARunEndsItWithTheFileAndTheByte) {
  for (const int ranks : {1, 2}) {
    write_tokens(100000);
    const Error error = failure_of(
        run_of(ranks), [&] { std::filesystem::resize_file(file(), kTokenFileHeaderBytes); });
    expect_recorded(error, "cannot read at byte ");
    EXPECT_NE(error.message.find("the file ends at byte 64;"), std::string::npos);
    std::filesystem::remove_all(root_);
  }
}

// Only the second rank reads the missing bytes. The first rank, which writes the metrics, learns of
// the failure from it.
TEST_F(TokenDamage, TheFailureOfAnotherRankIsRecordedWithItsCause) {
  write_tokens(100000);
  const RunConfig config = run_of(2);
  const Sampler sampler(config.run.seed, 100000, kTokensOfSample);
  // Step 2 reads samples 2 and 3. Finds the first later sample of the second rank that reads beyond
  // the samples before it.
  int64_t greatest = std::max(sampler.first_token(2), sampler.first_token(3));
  uint64_t wanted = 4;
  for (;; wanted += 2) {
    const int64_t others = std::max(greatest, sampler.first_token(wanted));
    greatest = std::max(others, sampler.first_token(wanted + 1));
    if (greatest > others + kTokensOfSample + 1) break;
  }
  const int64_t first_byte = kTokenFileHeaderBytes + 2 * greatest;
  const Error error = failure_of(
      config, [&] { std::filesystem::resize_file(file(), static_cast<uintmax_t>(first_byte)); });
  expect_recorded(error, "cannot read at byte " + std::to_string(first_byte) + ": ");
  // The first rank may still be busy with the exchange that ends the step before.
  const auto names_step = [&](uint64_t step) {
    return last_event().find("\"step\":" + std::to_string(step)) != std::string::npos;
  };
  EXPECT_TRUE(names_step(wanted / 2) || names_step(wanted / 2 - 1)) << last_event();
}

// Files above the size limit are not verified at the start; their chunks are verified when they are
// read.
TEST_F(TokenDamage, AFlipInALargeFileEndsTheRunWithItsChunk) {
  constexpr int64_t kTokens = TokenFile::kVerifiedAtOpen / 2 + 1000;
  write_tokens(kTokens);
  const RunConfig config = run_of(1);
  const int64_t first = Sampler(config.run.seed, kTokens, kTokensOfSample).first_token(6);
  const int64_t chunk = 2 * first / kTokenChunkBytes;
  // Damages bytes of the chunk that no sample reads.
  const int64_t position = kTokenFileHeaderBytes + chunk * kTokenChunkBytes + 12345;
  std::fstream stream(file(), std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(position);
  const int byte = stream.get();
  stream.seekp(position);
  stream.put(static_cast<char>(byte ^ 1));
  stream.close();
  const Error error = failure_of(config, [] {});
  expect_recorded(error, "chunk " + std::to_string(chunk) + " (bytes ");
  EXPECT_NE(error.message.find("trireme data prepare"), std::string::npos);
}

}  // namespace
}  // namespace trireme
