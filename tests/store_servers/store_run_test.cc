// A run reads its tokens from servers of a store and copies its checkpoints to them, while these
// die one after the other, up to as many at once as the code bears. Each comes back with an empty
// disk, and the store is repaired before others die. The run ends with the bits of a calm one.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "cli/stored_run.h"
#include "compile/stage_cost.h"
#include "data/token_file_writer.h"
#include "session/session_fixture.h"
#include "store/shared_store_fixture.h"
#include "store/store_input.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct SmallRuns : SessionTest {
  using SessionTest::tiny_run;
};

class RunOnDyingServers : public SharedStore {
 protected:
  void SetUp() override {
    SharedStore::SetUp();
    file_.code = {2, 2};
    for (size_t server = 0; server < kServers; ++server) start_here(server);
    ASSERT_TRUE(create().ok());
    std::vector<int32_t> tokens(20'000);
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = int32_t(t * t % 61);
    auto writer = TokenFileWriter::create(path("train.tok"), 64, 1);
    ASSERT_TRUE(writer->append(tokens).ok());
    ASSERT_TRUE(writer->finish({}).ok());
    auto store = open(StoreAccess::Write);
    ASSERT_TRUE(put_files(**store, {{path("train.tok"), "train.tok"}}).ok());
  }

  std::string path(const std::string& name) const { return root_ + "/" + name; }

  static RunConfig run_on(const std::string& train, int64_t steps) {
    RunConfig config = SmallRuns::tiny_run(ComputeChoice::Fp32, steps);
    config.data.source = DataSource::Files;
    config.data.train = train;
    config.batch.global_sequences = 4;
    config.parallel.dp = 2;
    config.run.reproducible = Reproducible::Layout;
    config.checkpoint.every = 4;
    return config;
  }

  // Opens files with so little memory for them that most samples are read from servers.
  OpenInput inputs() {
    return [this](const std::string& name) -> Result<InputFile> {
      const auto open_it = [this] { return open(StoreAccess::Read); };
      TRIREME_TRY(bytes, open_store_input(open_it, "train.tok", std::make_shared<InputBudget>(0)));
      return InputFile(name, std::move(bytes));
    };
  }

  Result<SessionResult> train(const RunConfig& config, const std::string& folder,
                              const std::vector<RunObserver*>& observers) {
    const std::atomic<int> no_signals = 0;
    HostFacts host;
    host.num_cores = 2;
    return run_session({.config = config,
                        .out_dir = path(folder),
                        .host = host,
                        .hardware = nominal_hardware(),  // the run need not measure its kernels
                        .stop_signals = no_signals,
                        .observers = observers,
                        .open_input = inputs()});
  }

  void kill(size_t server) {
    servers_[server].reset();
    fs::remove_all(folder_of(server));
  }

  // The servers have empty disks now, which join the store by themselves.
  void bring_back(const std::vector<size_t>& dead) {
    size_t alive = 0;
    while (std::ranges::count(dead, alive) > 0) ++alive;
    for (const size_t server : dead) start_here(server, addresses_[alive]);
    const Deadline patience = Deadline::after(60);
    std::string why = why_not_repaired(dead);
    while (!why.empty() && patience.left_ms() > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      why = why_not_repaired(dead);
    }
    EXPECT_EQ(why, "");
  }
  // Writes the chunks of the empty disks, and gives them back their places in the metadata.
  std::string why_not_repaired(const std::vector<size_t>& dead) {
    auto store = open(StoreAccess::Maintain);
    if (!store.ok()) return store.error().message;
    const auto repaired = repair(**store);
    if (!repaired.ok()) return repaired.error().message;
    if (!repaired->lost.empty()) return repaired->lost.front();
    for (const size_t server : dead) {
      if (server >= file_.servers.size()) continue;
      const std::string name = "s" + std::to_string(server);
      const auto replaced = (*store)->replace_log_server(name, name);
      if (!replaced.ok()) return replaced.error().message;
    }
    const auto health = health_of(**store);
    if (!health.ok()) return health.error().message;
    return health->bytes_at_risk == 0 ? "" : "some blocks lack a chunk";
  }

  void expect_the_bits_of_a_calm_run(int num_rounds);

  static constexpr size_t kServers = 7;
};

class Reports : public RunObserver {
 public:
  void on_step(const StepReport& report) override { values.push_back(report); }
  std::vector<StepReport> values;
};

// After every odd step one or two servers die, in turn, and after the even step behind it they are
// brought back. So all steps read from a store that has just lost servers or was just repaired.
class DyingServers : public Reports {
 public:
  using Kill = std::function<void(size_t)>;
  using BringBack = std::function<void(const std::vector<size_t>&)>;
  DyingServers(size_t num_servers, Kill kill, BringBack bring_back)
      : num_servers_(num_servers), kill_(std::move(kill)), bring_back_(std::move(bring_back)) {}

  void on_step(const StepReport& report) override {
    Reports::on_step(report);
    if (report.step % 2 == 0) {
      bring_back_(std::exchange(dead_, {}));
      return;
    }
    const int num_dying = 1 + int(report.step / 2) % 2;
    for (int dying = 0; dying < num_dying; ++dying) {
      dead_.push_back(size_t(num_killed++) % num_servers_);
      kill_(dead_.back());
    }
  }
  int num_killed = 0;

 private:
  const size_t num_servers_;
  const Kill kill_;
  const BringBack bring_back_;
  std::vector<size_t> dead_;
};

void RunOnDyingServers::expect_the_bits_of_a_calm_run(int num_rounds) {
  const int64_t steps = 2 * num_rounds;
  Reports calm;
  const auto undisturbed = train(run_on(path("train.tok"), steps), "calm", {&calm});
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.error().message;

  DyingServers dying(
      kServers, [this](size_t server) { kill(server); },
      [this](const std::vector<size_t>& dead) { bring_back(dead); });
  const auto open_for_copy = [this] {
    StoreOptions writing = options(StoreAccess::Write);
    writing.straggler_s = 30.0;  // a chunk less would bear a loss less
    return Store::open(file_, writing);
  };
  std::string told;
  const auto tell = [&](const std::string& text) { told += text + "\n"; };
  StoredRun copy(RunCopy(path("run"), "run"), open_for_copy, tell, [] { return 120.0; });
  const auto disturbed = train(run_on("store://test/train.tok", steps), "run", {&dying, &copy});
  ASSERT_TRUE(disturbed.ok()) << disturbed.error().message;
  const Status finished = copy.finish();
  ASSERT_TRUE(finished.ok()) << finished.error().message << "\n" << told;
  EXPECT_GE(dying.num_killed, int(kServers));

  ASSERT_EQ(dying.values.size(), calm.values.size());
  for (size_t step = 0; step < calm.values.size(); ++step) {
    EXPECT_EQ(dying.values[step].loss, calm.values[step].loss) << step;
    EXPECT_EQ(dying.values[step].grad_norm, calm.values[step].grad_norm) << step;
  }
  // The weights and the state of the optimizer, in the run and in its copy, from which as many
  // servers are taken as the code bears.
  for (const size_t server : {size_t{0}, size_t{3}}) kill(server);
  const std::string checkpoint = fmt::format("checkpoints/step-{:06d}", steps);
  auto store = open(StoreAccess::Read);
  ASSERT_TRUE(store.ok()) << store.error().message;
  int num_shards = 0;
  for (const auto& entry : fs::directory_iterator(path("calm/" + checkpoint))) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string name = checkpoint + "/" + entry.path().filename().string();
    const std::string want = read_text_file(entry.path().string()).value();
    EXPECT_EQ(hash64(read_text_file(path("run/" + name)).value()), hash64(want)) << name;
    const auto copied = content_of(**store, "run/" + name);
    ASSERT_TRUE(copied.ok()) << copied.error().message;
    EXPECT_EQ(hash64(*copied), hash64(want)) << name;
    ++num_shards;
  }
  EXPECT_GT(num_shards, 0);
}

TEST_F(RunOnDyingServers, EndsWithTheBitsOfACalmRun) { expect_the_bits_of_a_calm_run(5); }

class RunOnDyingServersInFull : public RunOnDyingServers {};

TEST_F(RunOnDyingServersInFull, DISABLED_EndsWithTheBitsOfACalmRun) {
  expect_the_bits_of_a_calm_run(100);
}

}  // namespace
}  // namespace trireme
