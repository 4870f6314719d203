// Runs whose token files are in a store.

#include <filesystem>

#include "data/file_source.h"
#include "data/token_file_writer.h"
#include "session/session_fixture.h"
#include "store/store_fixture.h"
#include "store/store_input.h"

namespace trireme {
namespace {

constexpr std::string_view kStoreUrl = "store://test/";

class StoreSession : public SessionTest {
 protected:
  // Writes a token file beside the runs and returns its path.
  std::string token_file() const {
    std::filesystem::create_directories(root_);
    std::vector<int32_t> tokens(20'000);
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = int32_t(t * t % 61);
    auto writer = TokenFileWriter::create(path("train.tok"), 64, 1);
    EXPECT_TRUE(writer->append(tokens).ok());
    EXPECT_TRUE(writer->finish({}).ok());
    return path("train.tok");
  }

  static RunConfig run_on(const std::string& train) {
    RunConfig config = tiny_run(ComputeChoice::Fp32, 9);
    config.data.source = DataSource::Files;
    config.data.train = train;
    config.batch.global_sequences = 4;
    config.parallel.dp = 2;
    config.run.reproducible = Reproducible::Layout;
    return config;
  }

  // Opens files of the store with so little memory for them that most samples are read from disks.
  static OpenInput inputs_of(const TestStore& store) {
    return [&store](const std::string& name) -> Result<InputFile> {
      const auto open = [&store] { return store.open_for_reading(); };
      TRIREME_TRY(bytes, open_store_input(open, name.substr(kStoreUrl.size()),
                                          std::make_shared<InputBudget>(0)));
      return InputFile(name, std::move(bytes));
    };
  }
};

// Before every step a folder of the store dies, or the one that has died is empty again and is
// repaired. At any time as many are lost as the code bears, and in the end all have been.
class DyingFolders : public RunObserver {
 public:
  explicit DyingFolders(const TestStore& store) : store_(store) {}

  void on_step(const StepReport& report) override {
    reports.push_back(report);
    const int num_folders = int(store_.file.dirs.size());
    const int folder = int(report.step - 1) / 2 % num_folders;
    if (report.step % 2 == 1) {
      store_.lose(folder);
      ++num_lost;
      return;
    }
    store_.replace_with_empty(folder);
    const auto opened = store_.open();
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    ASSERT_TRUE(scrub_store(**opened).ok());
  }

  std::vector<StepReport> reports;
  int num_lost = 0;

 private:
  const TestStore& store_;
};

// The file does not fit into the memory for it, so its pieces are read in the order of the samples.
// What is announced is in memory or on its way, so that reading it fetches nothing more.
TEST_F(StoreSession, ShuffledWindowsAreFetchedOnceTheyAreAnnounced) {
  constexpr int64_t kSeqLen = 512;
  std::filesystem::create_directories(root_);
  std::vector<int32_t> tokens(2'000'000);
  for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = int32_t(t * t % 61);
  auto writer = TokenFileWriter::create(path("large.tok"), 64, 1);
  ASSERT_TRUE(writer->append(tokens).ok());
  ASSERT_TRUE(writer->finish({}).ok());
  const TestStore store({2, 1}, 0, 1 << 20);
  {
    const auto opened = store.open().value();
    ASSERT_TRUE(put_files(*opened, {{path("large.tok"), "large.tok"}}).ok());
  }
  const auto budget = std::make_shared<InputBudget>(2'500'000);
  auto bytes = open_store_input([&] { return store.open_for_reading(); }, "large.tok", budget);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  auto file = TokenFile::open(InputFile("store://test/large.tok", std::move(*bytes)), 0);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const FileSource stored = FileSource::make(std::move(*file), 7, kSeqLen).value();
  const FileSource local = FileSource::open(path("large.tok"), 7, kSeqLen).value();
  std::vector<int32_t> inputs(kSeqLen), targets(kSeqLen), want_inputs(kSeqLen), want(kSeqLen);
  constexpr uint64_t kMicro = 4;
  for (uint64_t first = 0; first < 10 * kMicro; first += kMicro) {
    stored.will_read(first, kMicro);
    const int64_t announced = budget->held_bytes;
    for (uint64_t sample = first; sample < first + kMicro; ++sample) {
      // The last sample announces the first one of the next micro-batch.
      if (sample + 1 == first + kMicro) {
        EXPECT_EQ(budget->held_bytes, announced) << sample;
      }
      stored.read_sample(sample, inputs, targets);
      local.read_sample(sample, want_inputs, want);
      ASSERT_EQ(inputs, want_inputs) << sample;
      ASSERT_EQ(targets, want) << sample;
    }
  }
}

TEST_F(StoreSession, HasTheBitsOfALocalFileWhileTheFoldersOfTheStoreDieOneByOne) {
  const std::string local = token_file();
  const std::vector<StepReport> want = reports_of(run_on(local), "local");
  const TestStore store({2, 1}, 0, 2048);
  {
    const auto opened = store.open().value();
    ASSERT_TRUE(put_files(*opened, {{local, "train.tok"}}).ok());
  }
  DyingFolders dying(store);
  const std::atomic<int> no_signals = 0;
  HostFacts host;
  host.num_cores = 2;
  const Result<SessionResult> result = run_session({.config = run_on("store://test/train.tok"),
                                                    .out_dir = path("stored"),
                                                    .host = host,
                                                    .hardware = hardware_,
                                                    .stop_signals = no_signals,
                                                    .observers = {&dying},
                                                    .open_input = inputs_of(store)});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GE(dying.num_lost, 3);
  ASSERT_EQ(dying.reports.size(), want.size());
  for (size_t step = 0; step < want.size(); ++step) {
    EXPECT_EQ(dying.reports[step].loss, want[step].loss);
    EXPECT_EQ(dying.reports[step].grad_norm, want[step].grad_norm);
  }
}

// A checkpoint that was put into a store resumes a run like the folder that it was put from, also
// if a folder of the store is lost.
TEST_F(StoreSession, ResumesFromACheckpointInAStore) {
  RunConfig config = run_on(token_file());
  config.run.stop_after = 4;
  reports_of(config, "first");
  config.run.stop_after = 0;
  const std::string folder = path("first/checkpoints/step-000004");
  const TestStore store({2, 1}, 0, 2048);
  {
    const auto opened = store.open().value();
    std::vector<FileToPut> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      files.push_back({entry.path().string(), "kept/" + entry.path().filename().string()});
    }
    ASSERT_TRUE(put_files(*opened, files).ok());
  }
  store.lose(1);
  const auto resumed = [&](const std::string& from, const std::string& out) {
    return reports_of(config, out, ResumeMode::Path, from, inputs_of(store));
  };
  const std::vector<StepReport> want = resumed(folder, "local");
  const std::vector<StepReport> got = resumed("store://test/kept", "stored");
  ASSERT_EQ(want.size(), 5u);
  ASSERT_EQ(got.size(), want.size());
  for (size_t step = 0; step < want.size(); ++step) {
    EXPECT_EQ(got[step].step, want[step].step);
    EXPECT_EQ(got[step].loss, want[step].loss);
    EXPECT_EQ(got[step].grad_norm, want[step].grad_norm);
  }
}

TEST_F(StoreSession, ANameThatNobodyCanOpenIsRefusedWithItsKey) {
  const Outcome outcome = outcome_of(run_on("store://test/train.tok"), "run");
  ASSERT_FALSE(outcome.result.ok());
  EXPECT_EQ(outcome.result.error().kind, ErrorKind::Usage);
  EXPECT_NE(outcome.result.error().message.find("data.train = \"store://test/train.tok\""),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
