// Commands that read token files, texts and models take names of a store, too.

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/store_readers_fixture.h"
#include "data/text_reader.h"

namespace trireme {
namespace {

TEST_F(StoreReaders, EvalAndGenerateReadModelsTokensAndTextsOfAStore) {
  ok({"train", "tiny.toml", "--set", "data.source=files", "--set", "data.train=data/train.tok",
      "--set", "model.vocab_size=0", "--set", "run.steps=2", "--set", "run.threads_per_rank=1",
      "--set", "optim.warmup_steps=0", "--out", "run"});
  put("run/checkpoints/step-000002", "run/step-000002");
  put("data/val.tok", "val.tok");
  put("text.txt", "text.txt");
  std::ofstream("prompt") << "Once";
  put("prompt", "prompt");
  std::filesystem::remove_all("d1");  // the code bears the loss of a disk
  const auto eval = [](const std::string& model, const std::string& data) {
    return parse_json(ok({"eval", model, data, "--json", "--set", "run.threads_per_rank=1"}));
  };
  for (const std::string data : {"data/val.tok", "text.txt"}) {
    const std::string stored = "store://demo/" + std::filesystem::path(data).filename().string();
    const auto local = eval("run", data), remote = eval("store://demo/run/step-000002", stored);
    for (const char* number : {"step", "tokens", "bytes", "loss", "top1"}) {
      EXPECT_EQ(remote[number], local[number]) << data << ": " << number;
    }
    EXPECT_EQ(remote["data"], stored);
  }
  const auto generate = [](const std::string& model, const std::string& prompt) {
    return ok({"generate", model, "--file", prompt, "-n", "8", "--seed", "3"});
  };
  EXPECT_EQ(generate("store://demo/run/step-000002", "store://demo/prompt"),
            generate("run", "prompt"));
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"eval", "run", "store://demo/absent"},
        {"eval", "store://demo/absent", "text.txt"},
        {"generate", "run", "--file", "store://demo/absent"}}) {
    const CommandAnswer refused = run(args);
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_NE(refused.err.find("absent"), std::string::npos) << refused.err;
  }
}

TEST_F(StoreReaders, DataInspectAndExportReadFilesOfAStore) {
  ok({"data", "export", "data/val.tok", "--out", "val.bin"});
  put("data/val.tok", "val.tok");
  put("data/train.tok", "train.tok");
  put("val.bin", "val.bin");
  const auto inspect = [](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"data", "inspect", file, "--json"};
    args.insert(args.end(), more.begin(), more.end());
    auto answer = parse_json(ok(args));
    EXPECT_EQ(answer["file"], file);
    answer.erase("file");
    return answer;
  };
  EXPECT_EQ(inspect("store://demo/val.tok", {"--baselines", "store://demo/train.tok"}),
            inspect("data/val.tok", {"--baselines", "data/train.tok"}));
  EXPECT_EQ(inspect("store://demo/val.bin", {}), inspect("val.bin", {}));
  ok({"data", "export", "store://demo/val.tok", "--out", "again.bin"});
  std::stringstream before, after;
  before << std::ifstream("val.bin", std::ios::binary).rdbuf();
  after << std::ifstream("again.bin", std::ios::binary).rdbuf();
  EXPECT_EQ(after.str(), before.str());
  EXPECT_EQ(run({"data", "inspect", "store://demo/absent.tok"}).exit_code, 2);
}

// A text of a store is decompressed by its name, as a local one is.
TEST_F(StoreReaders, ATextOfAStoreIsDecompressed) {
  ASSERT_EQ(std::system("gzip -k text.txt"), 0);
  put("text.txt.gz", "text.txt.gz");
  TextReader reader = TextReader::open({.paths = {"store://demo/text.txt.gz"},
                                        .open_input = store_inputs("stores", "")})
                          .value();
  TextBatch batch;
  while (reader.read(batch).value()) {
  }
  std::stringstream text;
  text << std::ifstream("text.txt").rdbuf();
  EXPECT_EQ(batch.text, text.str());
}

}  // namespace
}  // namespace trireme
