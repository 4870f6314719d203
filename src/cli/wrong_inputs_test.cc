#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/command_fixture.h"
#include "comm/tcp/socket.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Wrong inputs that people give. docs/wrong_inputs.md lists the answer to each of them.
const std::vector<std::vector<std::string>> kWrongInputs = {
    {"trian", "tiny.toml"},
    {"train"},
    {"train", "tiny.toml", "--step", "5"},
    {"train", "missing.toml"},
    {"train", "run"},
    {"train", "text.txt"},
    {"train", "cluster.toml"},
    {"train", "tiny.toml", "--set", "model.layer=4"},
    {"train", "tiny.toml", "--set", "model.layers=four"},
    {"train", "tiny.toml", "--set", "run.steps=0"},
    {"train", "tiny.toml", "--set", "parallel.schedule=1f1c"},
    {"train", "tiny.toml", "--set", "parallel.tp=3"},
    {"train", "tiny.toml", "--ranks", "3", "--set", "parallel.dp=2"},
    {"train", "tiny.toml", "--ranks", "3", "--set", "parallel.pp=2", "--set", "parallel.dp=2",
     "--set", "parallel.stage_dp=2,one"},
    {"train", "tiny.toml", "--ranks", "4", "--set", "parallel.pp=2", "--set", "parallel.dp=2",
     "--set", "parallel.stage_dp=2,1,1"},
    {"train", "tiny.toml", "--ranks", "4", "--set", "parallel.pp=2", "--set", "parallel.dp=2",
     "--set", "parallel.order=tp,cp,dp,pp", "--set", "parallel.stage_dp=2,1"},
    {"train", "tiny.toml", "--ranks", "3", "--set", "parallel.pp=2", "--set", "parallel.tp=2",
     "--set", "parallel.stage_tp=1,two"},
    {"train", "tiny.toml", "--ranks", "5", "--set", "parallel.pp=2", "--set", "parallel.tp=2",
     "--set", "parallel.order=tp,cp,dp,pp", "--set", "parallel.stage_tp=3,2"},
    {"train", "tiny.toml", "--ranks", "4", "--set", "parallel.pp=2", "--set", "parallel.tp=2",
     "--set", "parallel.order=tp,cp,dp,pp", "--set", "parallel.stage_tp=1,2"},
    {"train", "tiny.toml", "--set", "parallel.pp=2", "--set", "parallel.stage_layers=3,4"},
    {"train", "tiny.toml", "--set", "parallel.pp=2", "--set", "parallel.stage_layers=0,4"},
    {"train", "tiny.toml", "--set", "run.stop_patience=3"},
    {"train", "tiny.toml", "--set", "data.source=files"},
    {"train", "tiny.toml", "--set", "data.source=files", "--set", "data.train=missing.tok"},
    {"train", "tiny.toml", "--set", "data.source=files", "--set", "data.train=text.txt"},
    {"train", "tiny.toml", "--set", "data.source=files", "--set", "model.vocab_size=0", "--set",
     "data.train=data/train.tok", "--set", "data.val=missing.tok"},
    {"train", "tiny.toml", "--set", "run.threads_per_rank=1", "--set", "memory.limit_bytes=100000"},
    {"train", "tiny.toml", "--set", "run.backend=tcp", "--out", "new"},
    {"train", "tiny.toml", "--out", "run"},
    {"train", "tiny.toml", "--resume", "missing", "--out", "new"},
    {"train", "tiny.toml", "--resume", "run", "--set", "model.layers=5", "--out", "new"},
    {"train", "tiny.toml", "--set", "data.document_mask=yes"},
    {"train", "tiny.toml", "--set", "optim.qk_clip=100"},
    {"train", "tiny.toml", "--set", "model.lora_alpha=16"},
    {"train", "tiny.toml", "--set", "model.lora_rank=4", "--set", "model.lora_targets=wz"},
    {"train", "tiny.toml", "--set", "model.lora_rank=4", "--set", "optim.name=muon", "--set",
     "optim.qk_clip=100"},
    {"train", "tiny.toml", "--set", "model.family=llama", "--set", "model.kv_lora_rank=16", "--set",
     "model.qk_rope_head_dim=8", "--set", "run.reproducible=mesh"},
    {"train", "tiny.toml", "--set", "model.family=llama", "--set", "model.kv_lora_rank=16", "--set",
     "model.qk_rope_head_dim=8", "--set", "model.lora_rank=4", "--set", "model.lora_targets=k,v"},
    {"train", "tiny.toml", "--set", "model.family=llama", "--set", "model.kv_lora_rank=16", "--set",
     "model.qk_rope_head_dim=8", "--set", "model.index_top_k=4", "--set", "model.index_heads=2",
     "--set", "model.index_head_dim=8"},
    {"train", "tiny.toml", "--resume", "run", "--set", "model.lora_alpha=16", "--out", "new"},
    {"launch", "tiny.toml", "--out", "lemons", "--resume", "auto"},
    {"train", "tiny.toml", "--set", "run.prometheus_file=missing/metrics.prom", "--out", "new"},
    {"sweep", "tiny.toml"},
    {"sweep", "tiny.toml", "--over", "optim.lr=1e-4,1e-3", "--out", "text.txt"},
    {"sweep", "tiny.toml", "--over", "optim.lr=1e-4...1e-2"},
    {"sweep", "tiny.toml", "--over", "optim.lrs=1e-4,1e-3"},
    {"sweep", "tiny.toml", "--over", "optim.lr=1e-2..1e-4:log5"},
    {"sweep", "tiny.toml", "--lr-range", "1..1e-3"},
    {"generate"},
    {"generate", "missing", "-p", "Once"},
    {"generate", ".", "-p", "Once"},
    {"generate", "hf", "-p", "Once"},
    {"generate", "run", "-p", "Once"},
    {"generate", "run", "-p", "Once", "--temp", "-1"},
    {"generate", "run", "-p", "Once", "--prompts", "text.txt"},
    {"generate", "run", "--prompts", "missing.txt"},
    {"generate", "run", "--prompts", "empty.txt"},
    {"generate", "hf", "-p", "Once", "--precision", "fp8"},
    {"generate", "cut.gguf", "-p", "Once"},
    {"generate", "text.txt", "-p", "Once"},
    {"eval", "run", "text.txt"},
    {"checkpoint", "verify", "damaged"},
    {"plan", "tiny.toml", "--cluster", "tiny.toml"},
    {"plan", "tiny.toml", "--json", "--set", "run.threads_per_rank=1", "--set",
     "memory.limit_bytes=100000"},
    {"schedule", "zb_v", "--stages", "4", "--microbatches", "8", "--chunks", "3"},
    {"data", "images", "text.txt"},
    {"data", "images", "data", "--size", "0"},
    {"data", "images", "data"},
    {"report", "data"},
    {"failures", "missing"},
    {"status", "missing"},
    {"data", "prepare", "missing.txt", "--tokenizer", "byte", "--out", "new"},
    {"data", "prepare", "run", "--tokenizer", "byte", "--out", "new"},
    {"data", "prepare", "text.txt", "--tokenizer", "byte", "--out", "text.txt"},
    {"checkpoint", "import", "data", "--out", "new"},
    {"checkpoint", "import", "run", "--out", "new"},
    {"checkpoint", "logits", "run"},
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Returns the lines of an answer that begin with "error: ", without this word, as a table cell.
std::string message_of(const std::string& err) {
  std::string message;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("error: ")) continue;
    message += (message.empty() ? "" : "<br>") +
               replaced(replaced(line.substr(7), "<", "&lt;"), "|", "\\|");
  }
  return message;
}

// Runs in a folder with the files that the inputs name.
class WrongInputs : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    fs::copy_file(root_ / "clusters" / "dgx-a100-80g.toml", "cluster.toml");
    fs::create_directories("hf");
    std::ofstream("hf/config.json") << "{}";
    std::ofstream("cut.gguf") << "GGUF" << std::string(20, '\3');
    std::ofstream("empty.txt") << "\n\n";
    fs::create_directories("lemons");
    std::ofstream("lemons/host_history.jsonl") << R"({"host":"a","kind":"crashed","time":1.5})"
                                               << "\n"
                                               << R"({"host":"b","kind":"crashed","time":"soon"})"
                                               << "\n";
    succeed({"train", "tiny.toml", "--set", "run.steps=1", "--out", "run"});
    fs::copy("run/checkpoints/step-000001", "damaged", fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator("damaged")) {
      if (entry.path().extension() == ".safetensors") flip_last_byte(entry.path());
    }
  }

  static void flip_last_byte(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const int byte = file.get();
    file.seekp(-1, std::ios::end);
    file.put(char(byte ^ 1));
  }
};

TEST_F(WrongInputs, EachGetsItsExitCodeAndTheMessageOfThePage) {
  std::string table = "| input | exit code | message |\n|---|---|---|\n";
  for (const std::vector<std::string>& args : kWrongInputs) {
    std::string command = "trireme";
    for (const std::string& arg : args) command += " " + arg;
    SCOPED_TRACE(command);
    const CommandAnswer answer = answer_of(args);
    EXPECT_GE(answer.exit_code, 2);
    EXPECT_LE(answer.exit_code, 4);
    // Checksums depend on the kernels of this processor.
    const std::string message =
        std::regex_replace(message_of(replaced(answer.err, folder_.string() + "/", "")),
                           std::regex("[0-9a-f]{16}"), "0123456789abcdef");
    EXPECT_FALSE(message.empty());
    table += "| `" + command + "` | " + std::to_string(answer.exit_code) + " | " + message + " |\n";
    const bool wants_json = std::find(args.begin(), args.end(), "--json") != args.end();
    if (wants_json) {
      const auto json = parse_json(answer.out);
      EXPECT_EQ(json.at("exit_code"), answer.exit_code);
      EXPECT_NE(answer.err.find(json.at("error").get<std::string>().substr(0, 40)),
                std::string::npos);
    } else {
      EXPECT_EQ(answer.out, "");
    }
  }
  for (const char* const page : {"wrong_inputs.md", "cli.md"}) {
    const std::string text = read_text_file((root_ / "docs" / page).string()).value();
    EXPECT_NE(text.find("lists " + std::to_string(kWrongInputs.size()) + " wrong inputs"),
              std::string::npos)
        << page << " has another number than " << kWrongInputs.size();
  }
  EXPECT_FALSE(fs::exists("new")) << "a refused run leaves no folder";
  EXPECT_EQ(std::distance(fs::directory_iterator("lemons"), fs::directory_iterator()), 1)
      << "a refused run changes no folder";
  const std::string page = read_text_file((root_ / "docs" / "wrong_inputs.md").string()).value();
  const size_t begin = page.find("| input |");
  const std::string written = testing::TempDir() + "/wrong_inputs_table.md";
  const bool is_same = begin != std::string::npos && page.substr(begin) == table;
  if (!is_same) {
    ASSERT_TRUE(write_file_atomically(written, table).ok());
  }
  EXPECT_TRUE(is_same) << "replace the table of docs/wrong_inputs.md by " << written;
}

// An agent runs `trireme train` for each rank, but the user has started `trireme launch`.
TEST_F(WrongInputs, RanksNameTheCommandThatTheUserHasStarted) {
  const std::vector<std::string> args = {"train", "missing.toml"};
  EXPECT_EQ(answer_of(args).err, "error: trireme train: missing.toml: no such file\n");
  const Launch launch{.ranks = 2, .place = TcpPlace{}};
  EXPECT_EQ(answer_of(args, launch).err, "error: trireme launch: missing.toml: no such file\n");
}

TEST_F(WrongInputs, ARunWhosePortIsTakenLeavesNoFolder) {
  const Socket taken = listen_at("127.0.0.1:0").value();
  const std::string address = own_address(taken);
  const std::string port = "run.prometheus_port=" + address.substr(address.rfind(':') + 1);
  const CommandAnswer answer = answer_of({"train", "tiny.toml", "--set", port, "--out", "new"});
  EXPECT_EQ(answer.exit_code, 2) << answer.err;
  EXPECT_NE(answer.err.find("choose another port"), std::string::npos) << answer.err;
  EXPECT_FALSE(fs::exists("new"));
}

}  // namespace
}  // namespace trireme
