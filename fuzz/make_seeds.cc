// make_seeds FOLDER: writes FOLDER/TARGET/NAME, valid inputs for every fuzz target made by the
// writers of the formats, and FOLDER/TARGET.dict, the words in them.

#include <zlib.h>
#include <zstd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent_wire.h"
#include "agent/rank_link.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/sealed_json.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/hosts_record.h"
#include "comm/tcp/wire.h"
#include "data/encoded_images.h"
#include "data/foreign_token_file.h"
#include "data/token_file_writer.h"
#include "interchange/peft_config.h"
#include "jobs/export_job.h"
#include "raft/members.h"
#include "raft/raft_message.h"
#include "schema/hardware.h"
#include "schema/run_config_text.h"
#include "scratch_folder.h"
#include "small_models.h"
#include "store/chunk_format.h"
#include "store/folder_identity.h"
#include "store/metadata_command.h"
#include "store/server_log_file.h"
#include "store/store_file.h"
#include "store/store_wire.h"
#include "sweep/sweep_record.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/char_tokenizer.h"
#include "tokenizer/foreign_tokenizer.h"

namespace {

using namespace trireme;
namespace fs = std::filesystem;

constexpr std::string_view kText =
    "It is a truth universally acknowledged, that we\xe2\x80\x99ll 'er 1234 \xc3\xa9\n\n\tbe well.";

void expect(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "make_seeds: %s\n", status.error().message.c_str());
  std::exit(1);
}

class Seeds {
 public:
  explicit Seeds(std::string folder) : folder_(std::move(folder)) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  // `mode` is the first byte, by which most targets choose what they do.
  void add(const std::string& target, std::string_view content, const std::string& mode = "") {
    fs::create_directories(folder_ + "/" + target);
    write_plainly(folder_ + "/" + target + "/" + std::to_string(count_++),
                  mode + std::string(content));
    collect_words(content, words_[target]);
  }
  void write_dictionaries() const {
    for (const auto& [target, words] : words_) {
      std::string lines = "# Words of the seeds.\n";  // not empty, because an empty file is refused
      for (const std::string& word : words) lines += "\"" + word + "\"\n";
      write_plainly(folder_ + "/" + target + ".dict", lines);
    }
  }

 private:
  static void collect_words(std::string_view content, std::set<std::string>& words) {
    std::string word;
    for (const char c : std::string(content) + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-') {
        word += c;
        continue;
      }
      if (word.size() >= 2 && word.size() <= 40 && words.size() < 600) words.insert(word);
      word.clear();
    }
  }

  std::string folder_;
  std::map<std::string, std::set<std::string>> words_;
  int count_ = 0;
};

std::string gzipped(std::string_view text) {
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::exit(1);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstandard(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 9));
  return packed;
}

void add_text(Seeds& seeds) {
  std::string text;
  while (text.size() < 40'000) text += kText;
  for (const std::string_view part : {kText, std::string_view(text)}) {
    seeds.add("byte_stream_fuzz", gzipped(part), std::string("\x01\xff", 2));
    seeds.add("byte_stream_fuzz", gzipped(part) + gzipped(kText), std::string("\x01\x03", 2));
    seeds.add("byte_stream_fuzz", zstandard(part), std::string("\0\x07", 2));
  }
  seeds.add("jsonl_fuzz", R"({"text":"a\u00e9\ud83d\ude00\n","meta":{"n":[1,-2.5e3,true,null]}})");
  seeds.add("jsonl_fuzz", R"({"id":7,"deep":[[[["x"]]]],"text":""})");
  seeds.add("chat_fuzz", R"({"prompt":"2 + 2 = ","completion":"4"})");
  seeds.add("chat_fuzz", R"({"messages":[{"role":"user","content":[{"text":"Hi"}]},)"
                         R"({"role":"assistant","content":"Hello"}]})");
}

void add_tokenizers(Seeds& seeds, const ScratchFolder& scratch) {
  const BpeTokenizer bpe = small_tokenizer();
  const std::string text = std::string(1, '\0') + std::string(kText);
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  tokenizers.push_back(std::make_unique<ByteTokenizer>());
  auto characters = CharTokenizer::make({'a', 'b', 0xe9, 0x1f600});
  if (!characters.ok()) std::exit(1);
  tokenizers.push_back(std::make_unique<CharTokenizer>(std::move(*characters)));
  for (const auto& tokenizer : tokenizers) seeds.add("tokenizer_fuzz", tokenizer->to_json() + text);
  seeds.add("tokenizer_fuzz", bpe.to_json() + text);
  const std::string folder = scratch / "tokenizer";
  fs::create_directories(folder);
  expect(write_hugging_face_tokenizer(bpe, 128, folder));
  const std::string foreign = read_plainly(folder + "/tokenizer.json");
  seeds.add("foreign_tokenizer_fuzz", foreign, "\x02");
  seeds.add("tokenizer_fuzz", foreign + text);
  if (fs::exists(folder + "/vocab.json")) {
    seeds.add("foreign_tokenizer_fuzz",
              read_plainly(folder + "/vocab.json") + '\0' + read_plainly(folder + "/merges.txt"),
              "\x01");
  }
  seeds.add("foreign_tokenizer_fuzz", "YQ== 0\nYg== 1\nYWI= 2\n", "\x04");
}

void add_token_files(Seeds& seeds, const ScratchFolder& scratch) {
  for (const int64_t vocab_size : {int64_t{300}, int64_t{100'000}}) {
    const std::string path = scratch / "train.tok";
    auto writer = TokenFileWriter::create(path, vocab_size, 7);
    if (!writer.ok()) std::exit(1);
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 3000; ++i) tokens.push_back(i % 299);
    expect(writer->append(tokens));
    if (!writer->finish({.num_documents = 3, .text_bytes = 9000}).ok()) std::exit(1);
    seeds.add("token_file_fuzz", read_plainly(path), "\x01");
    const auto file = TokenFile::open(path);
    if (!file.ok()) std::exit(1);
    for (const ForeignTokens format : {ForeignTokens::NanoGpt, ForeignTokens::Llmc}) {
      const std::string out = scratch / "foreign.bin";
      fs::remove(out);
      if (!export_tokens(*file, format, out).ok()) continue;  // too wide for the format
      seeds.add("foreign_tokens_fuzz", read_plainly(out));
    }
  }
}

void add_images(Seeds& seeds) {
  const std::string at_zero(1, '\0');
  for (const int64_t channels : {int64_t{1}, int64_t{3}}) {
    const ImageExtents extents{9, 7, channels};
    std::vector<uint8_t> pixels;
    for (int64_t i = 0; i < extents.bytes(); ++i) pixels.push_back(static_cast<uint8_t>(i * 31));
    for (const bool interlaced : {false, true}) {
      seeds.add("image_fuzz", encoded_png(extents, pixels, 8, interlaced), at_zero + at_zero);
    }
    seeds.add("image_fuzz", encoded_jpeg(extents, pixels), at_zero + at_zero);
  }
  const std::string labels = idx_header({3}) + std::string("\1\4\2");
  seeds.add("image_fuzz", labels + idx_header({3, 2, 2}) + "twelve bytes",
            {'\1', static_cast<char>(labels.size())});
  seeds.add("image_fuzz", std::string(3073, '\5') + std::string(3073, '\7'), "\2\2");
  seeds.add("image_fuzz", std::string(3074, '\5'), "\2\2");
  std::string line;
  for (int i = 0; i < 64; ++i) line += std::to_string(i % 17) + (i % 3 == 0 ? ".0," : ",");
  seeds.add("image_fuzz", line + "7\n" + line + "1e0\n", "\3\3");
}

void add_models(Seeds& seeds, const ScratchFolder& scratch) {
  for (const ForeignFiles& model : write_small_models(scratch / "models")) {
    for (const auto& [path, content] : model.files) {
      const std::string name = fs::path(path).filename().string();
      if (name == "config.json") seeds.add("hugging_face_config_fuzz", content);
      if (name == "tokenizer.json") seeds.add("foreign_tokenizer_fuzz", content, "\x02");
      if (name.ends_with(".index.json")) seeds.add("hugging_face_index_fuzz", content);
      if (name.ends_with(".safetensors")) seeds.add("safetensors_fuzz", content, "\x01");
      if (content.starts_with("GGUF")) seeds.add("gguf_fuzz", content);
      if (model.format == ForeignFormat::Llmc) seeds.add("llmc_fuzz", content.substr(0, 1024));
    }
  }
  seeds.add("peft_config_fuzz",
            print_peft_config({.rank = 8, .alpha = 16.0, .modules = {"q_proj"}}));
  seeds.add("peft_config_fuzz", print_peft_config({.rank = 2,
                                                   .alpha = 4.5,
                                                   .modules = {"attn.c_attn"},
                                                   .wider_modules = {{"attn.c_attn", 6}},
                                                   .is_transposed = true}));
  const std::string checkpoint = save_small_checkpoint(scratch / "run", 2);
  seeds.add("checkpoint_index_fuzz", read_plainly(checkpoint + "/index.json"), "\x01");
  seeds.add("checkpoint_index_fuzz", read_plainly(checkpoint + "/index.json"),
            std::string(1, '\0'));
  const HostsRecord record{.step = 12,
                           .job = 5,
                           .epoch = 2,
                           .own = 1,
                           .num_data = 2,
                           .num_parity = 1,
                           .index_checksum = 7,
                           .hosts = {{"a", "north", {0, 1}}, {"b", "", {2}}, {"c", "north", {3}}}};
  seeds.add("hosts_record_fuzz", print_hosts_record(record), std::string(1, '\0'));
  seeds.add("hosts_record_fuzz", "0 .11 .01", "\x01");
  seeds.add("hosts_record_fuzz", "shard-00000-000.safetensors 0 64\n", "\x02");
  for (const char* parity : {"auto", "none", "4+2"}) seeds.add("hosts_record_fuzz", parity, "\x03");
}

// Adds messages of every kind between servers of a log, a segment, and a snapshot. The first byte
// says which of the three it is.
void add_logs(Seeds& seeds) {
  const std::string members = encode_members({{{1, "a:1"}, {2, "b:1"}, {3, "c:1"}}});
  const LogSnapshot snapshot{.index = 4, .term = 2, .members = members, .state = "state"};
  const std::vector<LogEntry> entries = {{3, 2, EntryKind::Command, "command"},
                                         {4, 3, EntryKind::Nothing, ""},
                                         {5, 3, EntryKind::Members, members}};
  using Kind = RaftMessage::Kind;
  for (int kind = 0; kind <= int(Kind::Snapshot); ++kind) {
    RaftMessage message{.kind = Kind(kind), .from = 1, .to = 2, .from_address = "a:1", .term = 3};
    message.index = message.log_term = 2;
    if (message.kind == Kind::Append) message.entries = entries;
    if (message.kind == Kind::Snapshot) {
      message.snapshot = std::make_shared<const LogSnapshot>(snapshot);
      message.index = snapshot.index;
    }
    seeds.add("raft_message_fuzz", encode_message(message), std::string(1, '\0'));
    message.is_granted = true;
    seeds.add("raft_message_fuzz", encode_message(message), std::string(1, '\0'));
  }
  seeds.add("raft_message_fuzz",
            segment_head(1, 2, 2) + frame_of(LogVote{.term = 3, .candidate = 2}, entries), "\x01");
  seeds.add("raft_message_fuzz", encode_snapshot(snapshot), "\x02");
}

// Adds requests to a server of a store, replies and a description. The first byte says which.
void add_store_messages(Seeds& seeds) {
  for (int op = 0; op <= int(kLastStoreOp); ++op) {
    const StoreRequest request{.op = StoreOp(op), .store = 7, .chunk = {9, 1}, .text = "text"};
    seeds.add("store_wire_fuzz", pack_request(request), std::string(1, '\0'));
  }
  seeds.add("store_wire_fuzz", pack_reply({.error = damaged("x")}), "\x01");
  seeds.add("store_wire_fuzz", pack_reply({.leader = "a:1", .chunks = {{9, 1}}}), "\x01");
  ServerDescription description{.identity = {7, "demo", "s0", 1}, .address = "a:1"};
  description.log_servers.push_back({"a:1", "a:2"});
  seeds.add("store_wire_fuzz", pack_description(description), "\x02");
  seeds.add("store_wire_fuzz", pack_log_start({.id = 2, .servers = description.log_servers}),
            "\x03");
}

// Adds what a store keeps as JSON, and names of a store. The first byte says which.
void add_store_files(Seeds& seeds) {
  StoreFile file{.id = 7, .name = "demo", .code = {2, 1}, .dirs = {"/d0", "/d1", "/d2"}};
  file.mounts = {"/", "/d1", "/"};
  const StoreFile shared{.id = 7, .name = "demo", .code = {1, 2}, .servers = {"a:1", "b:1"}};
  const char* target = "store_file_fuzz";
  for (const StoreFile& store : {file, shared}) {
    seeds.add(target, text_of(store), std::string(1, '\0'));
  }
  const FolderIdentity identity{.store = 7, .store_name = "demo", .server = "s0"};
  ServerDescription server{.identity = identity, .address = "a:1", .log_address = "a:2"};
  server.log_servers = {{"a:1", "a:2"}, {"b:1", "b:2"}};
  for (const char* mode : {"\x01", "\x02"}) seeds.add(target, text_of(identity), mode);
  for (const char* mode : {"\x03", "\x04"}) {
    seeds.add(target, text_of(server, first_start_of(server)), mode);
    seeds.add(target, text_of(server, {.id = 9, .servers = {{"c:1", "c:2"}}}), mode);
  }
  seeds.add(target, "store://demo/data/train.tok", "\x05");
}

// Adds files of chunks: of one piece, of two, and an empty one.
void add_store_chunks(Seeds& seeds) {
  for (const size_t bytes : {size_t{0}, size_t{20}, size_t{kChunkPieceBytes} - 300}) {
    const std::string content(bytes, 'x');
    const ChunkHeader header = header_of(7, {9, 1}, bytes, hash64(content), 0, 0);
    const auto head = bytes_of_header(header);
    seeds.add("store_chunk_fuzz",
              std::string(reinterpret_cast<const char*>(head.data()), head.size()) + content,
              std::string(1, '\0'));
  }
  const std::string piece(1000, 'y');
  const auto bytes = std::as_bytes(std::span(piece));
  const uint64_t checksum = piece_checksum(0, bytes);
  const auto pieces = std::as_bytes(std::span(&checksum, 1));
  const ChunkHeader header =
      header_of(7, {9, 1}, bytes.size(), hash64(bytes), kChunkPieceBytes, hash64(pieces));
  std::string chunk;
  for (const auto part : {bytes_of_header(header), bytes, pieces}) {
    chunk.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  seeds.add("store_chunk_fuzz", chunk, std::string(1, '\0'));
}

// Returns a record of metadata.log without checksums; the target adds them.
std::string record_of_log(uint64_t kind, uint64_t term, uint64_t index, const std::string& body) {
  const uint64_t head[] = {0, kind, term, index, body.size(), 0, 0};
  return std::string(reinterpret_cast<const char*>(head), sizeof(head)) + body;
}

// Adds logs of the metadata in a folder: a new store, and one behind a snapshot.
void add_store_logs(Seeds& seeds) {
  MetadataCommand create{.kind = CommandKind::Create, .number = 1};
  create.facts = {.id = 7, .name = "demo", .code = {2, 1}, .most_chunk_bytes = 4096};
  for (const char* server : {"s0", "s1", "s2"}) {
    create.servers.push_back(
        {.name = server, .address = server, .domain = server, .capacity_bytes = 9});
  }
  MetadataCommand begin{.kind = CommandKind::Begin, .number = 2};
  begin.paths = {"a", "b/c"};
  const std::string empty = "TRM1" + std::string(64, '\0');
  seeds.add("store_log_fuzz",
            record_of_log(1, 0, 1, "") + record_of_log(1, 1, 2, pack_command(create)) +
                record_of_log(1, 1, 3, pack_command(begin)),
            "\x01");
  seeds.add("store_log_fuzz",
            record_of_log(0, 1, 5, empty) + record_of_log(1, 2, 6, pack_command(create)), "\x01");
}

void add_configurations(Seeds& seeds) {
  seeds.add("hardware_fuzz", to_toml(Hardware{}));
  seeds.add("failure_rates_fuzz",
            "[rates]\nname = \"x\"\nsource = \"y\"\ndevices_per_host = 8\nhosts_per_rack = 2\n"
            "hosts_per_pod = 384\ncounted_devices = 16_384\ncounted_days = 54\n"
            "per_host_day = 6.5e-3\nrestart_s = 600\nrepair_hours = 24\nsave_s = 300\n"
            "storage_bytes_per_s = 2e12\nmemory_survives = \"host\"\nlemon_share = 0.01\n"
            "lemon_factor = 20\nlemon_drain_after = 3\n"
            "[causes.\"Faulty GPU\"]\nclass = \"device lost\"\ndomain = \"device\"\ncount = 148\n"
            "printed_share = 0.301\n[causes.rest]\nshare = 1\n[causes.kill]\nper_day = 5760\n"
            "[mttf_hours]\n8 = 1144.8\n1024 = 7.9\n");
  seeds.add(
      "serving_fuzz",
      "[tiers.edge]\nbytes_per_s = 100.0\nprice_per_gb = 1.0\nlatency_s = 0.1\n[tiers.cloud]\n"
      "[workers.a]\ntier = \"edge\"\nworkers = 3\nprice_per_hour = 0.1\nmemory_bytes = 10\n"
      "[workers.b]\ntier = \"cloud\"\nworkers = 2\nprice_per_hour = 2.0\nmemory_bytes = 50\n"
      "====\n[pipeline]\nname = \"x\"\naccuracy = 0.7\nutilization = 0.8\n"
      "accuracy_rule = \"measured\"\n[sources.s]\ntier = \"edge\"\nitems_per_s = 10\n"
      "item_bytes = 4\n[operators.d]\ninputs = { s = 1.0 }\nweight = 2\n"
      "[operators.d.models.m]\naccuracy = 0.8\nmemory_bytes = 5\noutput_bytes = 1\n"
      "speeds = { a = 5.0, b = 50.0 }\n[operators.t]\ninputs = { d = 0.5 }\n"
      "[operators.t.models.n]\nspeeds = { b = 20.0 }\nbatch = 2\n"
      "[combinations.c]\nd = \"m\"\nt = \"n\"\naccuracy = 0.75\n");
  // An empty snapshot, a command and a question of the store's metadata, by their first byte.
  const std::string zeros(64, '\0');
  seeds.add("store_metadata_fuzz", std::string(1, '\0') + "TRM1" + zeros);
  seeds.add("store_metadata_fuzz", "\1" + zeros);
  seeds.add("store_metadata_fuzz", "\2" + zeros);
  const char* rules = "failure_rules_fuzz";
  seeds.add(rules,
            "[rules.\"no space\"]\nclass = \"disk full\"\nconfidence = 0.98\n"
            "pattern = \"no space left*device|quota exceeded\"\nin = \"kernel\"\n"
            "kind = \"failed\"\nsignal = 9\nexit_code = 4\ncounter = \"oom_kills\"\n"
            "remedy = \"x\"\n[classes.hang]\nuser = \"u\"\nsystem = \"s\"\nhardware = \"h\"\n",
            std::string(1, 0));
  seeds.add(
      rules,
      "{\"event\":\"failure\",\"step\":16,\"cause\":\"rank 1 does not answer\",\"class\":"
      "\"killed\",\"rank\":1,\"host\":\"vm\",\"epoch\":1,\"detected_ms\":22.09,\"evidence\":"
      "\"was killed by signal 9 (Killed)\",\"number\":1,\"oom_kills\":1,\"kernel\":[\"oom\"]}\n",
      std::string(1, 1));
  RunConfig config;
  config.model.layers = 4;
  config.model.d_model = 64;
  config.model.vocab_size = 256;
  config.model.seq_len = 64;
  config.data.source = DataSource::Synthetic;
  seeds.add("toml_fuzz", to_toml(config));
  seeds.add("toml_fuzz", "parallel.dp=2");
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    for (const ScheduleKind schedule :
         {ScheduleKind::OneFOneB, ScheduleKind::Gpipe, ScheduleKind::ZbH1, ScheduleKind::Dualpipe,
          ScheduleKind::Interleaved}) {
      config.model.family = family;
      config.parallel.schedule = schedule;
      config.parallel.pp = 2;
      config.parallel.dp = 2;
      config.parallel.zero = family == ModelFamily::Gpt2 ? 2 : 1;
      config.batch.global_sequences = 8;
      config.batch.micro_sequences = 1;
      seeds.add("plan_fuzz", to_toml(config));
    }
    config.parallel.schedule = ScheduleKind::OneFOneB;
    config.parallel.tp = 2;
    config.parallel.sequence = true;
    config.memory.recompute = Recompute::Full;
    config.memory.offload = OffloadChoice::Optimizer;
    seeds.add("plan_fuzz", to_toml(config));
    config.parallel.tp = 1;
    config.parallel.sequence = false;
  }
}

// Jobs of other trainers as we write them.
void add_jobs(Seeds& seeds) {
  RunConfig config;
  config.model.family = ModelFamily::Llama;
  config.model.vocab_size = 256;
  config.model.tied_head = false;
  config.batch.micro_sequences = 1;
  config.batch.global_sequences = 16;
  config.parallel.dp = 2;
  config.parallel.pp = 2;
  config.parallel.zero = 1;
  const auto add = [&](JobTrainer trainer, const char* target, const char* path) {
    const auto job = export_job({.trainer = trainer, .config = config, .path = path});
    if (!job.ok()) expect(job.error());
    seeds.add(target, job->files.front().text);
  };
  add(JobTrainer::Megatron, "megatron_job_fuzz", "job.sh");
  add(JobTrainer::Deepspeed, "deepspeed_job_fuzz", "ds_config.json");
  config.parallel.zero = 3;
  add(JobTrainer::Torchtitan, "torchtitan_job_fuzz", "job.toml");
  config.model.family = ModelFamily::Moe;
  config.parallel.zero = 1;
  config.parallel.schedule = ScheduleKind::Interleaved;
  add(JobTrainer::Megatron, "megatron_job_fuzz", "job.sh");
  seeds.add("megatron_job_fuzz",
            "N=2\nA=(--num-layers 24 --hidden-size $((N * 512)) # size\n)\n"
            "torchrun --nproc_per_node ${G:-8} pretrain_gpt.py \"${A[@]}\" \\\n --bf16 '--swiglu'");
  seeds.add("megatron_job_fuzz",
            "--multi-latent-attention --q-lora-rank 24 --qk-head-dim 16 --rope-type yarn "
            "--rotary-scaling-factor 40 --mscale 1 --mscale-all-dim 1 --window-size '(31,0)' "
            "--num-layers 8 --pipeline-model-parallel-size 2 --mtp-num-layers 1 "
            "--pipeline-model-parallel-layout 'Et*2|(t|)*2,t*4mL' "
            "--decoder-first-pipeline-num-layers 3 --account-for-loss-in-pipeline-split");
  seeds.add("torchtitan_job_fuzz",
            R"({"model_spec":{"name":"llama3","model":{"dim":64,"vocab_size":256,"layers":[)"
            R"({"attention":{"n_heads":4,"n_kv_heads":2,"head_dim":16,"qk_norm":null},)"
            R"("feed_forward":{"w1":{"out_features":192}}}]}},)"
            R"("training":{"max_context_length":64,"num_tokens_per_microbatch_per_dp_rank":128},)"
            R"("parallelism":{"data_parallel_shard_degree":2},"activation_checkpoint":null})");
}

void add_sweeps(Seeds& seeds) {
  for (const char* spec : {"optim.lr=1e-4..1e-2:log5", "model.layers=2..8:lin4",
                           "run.seed=1..9:lin", "optim.frozen=\"a,b\",c", "optim.name=adamw,sgd"}) {
    seeds.add("sweep_fuzz", spec, std::string(1, '\0'));
  }
  SweepRecord record;
  record.spec = {.files = {"run.toml"},
                 .overrides = {"run.steps=40"},
                 .seed = 1,
                 .grace = 0.25,
                 .total_steps = 40,
                 .config = "{\"optim\":{\"lr\":0.1}}"};
  record.spec.keys = {parse_swept_key("optim.lr=1e-3,1e-2").value()};
  record.trials = {{.point = {"1e-3"},
                    .state = TrialState::Finished,
                    .steps = 40,
                    .loss = 2.5,
                    .val_loss = 2.25,
                    .val_step = 40,
                    .rungs = {3.5, 3.0}},
                   {.point = {"1e-2"}, .state = TrialState::Diverged, .reason = "not finite"}};
  seeds.add("sweep_fuzz", sweep_json(record), "\x01");
  nlohmann::json plain = parse_json(sweep_json(record));
  plain.erase("checksum");
  seeds.add("sweep_fuzz", json_text(plain), "\x02");
  record.spec.keys.clear();
  record.spec.lr_range = LrRange{1e-6, 1.0};
  record.trials = {{.state = TrialState::Running}};
  record.finding = {.steepest_lr = 1e-3, .diverged_lr = 0.1, .diverged_step = 30};
  plain = parse_json(sweep_json(record));
  plain.erase("checksum");
  seeds.add("sweep_fuzz", json_text(plain), "\x02");
}

void add_run_files(Seeds& seeds) {
  const std::string metrics =
      R"({"event":"run","config":{"model":{"layers":4},"optim":{"lr":0.003}},"world_size":2})"
      "\n"
      R"({"event":"train","step":1,"loss":5.5,"lr":0.001,"grad_norm":1.5,"step_s":0.05})"
      "\n"
      R"({"event":"eval","step":1,"val_loss":5.4,"val_bits_per_byte":2.1})"
      "\n"
      R"({"event":"sample","step":1,"text":"</script><b>\u2028"})"
      "\n"
      R"({"event":"checkpoint","step":1,"path":"checkpoints/step-000001"})"
      "\n";
  const std::string summary = R"({"final_loss":5.4,"ranks":[{"rank":0,"peak_bytes":1000}]})";
  const std::string ranks = R"({"ranks":[{"rank":0,"trace":[{"name":"F0","ts":1,"dur":2}]}]})";
  seeds.add("report_fuzz", metrics + '\0' + summary + '\0' + ranks + '\0' + "[run]\nseed = 1\n");
  seeds.add("report_fuzz", metrics);
  seeds.add("sweep_fuzz", metrics, "\x03");
  seeds.add("metrics_request_fuzz", "GET /metrics HTTP/1.1\r\nHost: localhost:9400\r\n\r\n");
  seeds.add("metrics_request_fuzz", "GET /metrics?name=a HTTP/1.0\r\n\r\n");
  seeds.add("metrics_request_fuzz", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
}

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Messages between ranks; the first byte of the input chooses the check.
void add_tcp_messages(Seeds& seeds) {
  const char* target = "tcp_wire_fuzz";
  std::vector<Introduction> roster(4);
  for (int rank = 0; rank < 4; ++rank) roster[size_t(rank)].window.rank = rank;
  const std::vector<int32_t> nodes = {0, 0, 2, 2};
  seeds.add(target, std::string(1, 0) + text_of(bytes_of(Hello{})));
  seeds.add(target, std::string(1, 1) + text_of(bytes_of(Answer{})));
  seeds.add(target, std::string(1, 2) + text_of(bytes_of(roster[3])));
  seeds.add(target, std::string(1, 3) + text_of(std::as_bytes(std::span(roster))));
  seeds.add(target, std::string(1, 4) + text_of(std::as_bytes(std::span(nodes))));
  const int64_t news = int64_t(offsetof(NewsMessage, cause)) + 1;
  const int64_t call = int64_t(sizeof(SignatureRecord));
  std::string frames(1, 5);
  frames += text_of(bytes_of(TcpFrame{.kind = FrameKind::News, .body_bytes = news}));
  frames += text_of(bytes_of(NewsMessage{}).first(size_t(news)));
  frames += text_of(
      bytes_of(TcpFrame{.kind = FrameKind::Announce, .message_bytes = 8, .body_bytes = call + 8}));
  frames += text_of(bytes_of(SignatureRecord{.hash = 1})) + "12345678";
  frames += text_of(bytes_of(TcpFrame{.kind = FrameKind::Accept}));
  frames += text_of(bytes_of(TcpFrame{.kind = FrameKind::Payload, .body_bytes = 4})) + "abcd";
  seeds.add(target, frames);
}

// What a Coord may send; the first byte of the input chooses the parser.
void add_memberships(Seeds& seeds) {
  const char* target = "membership_fuzz";
  seeds.add(target,
            std::string(1, 0) +
                R"({"lease_s":6.0,"claimed_epoch":2,"claimed_by":"a 7","formed":{"epoch":2,)"
                R"("leader":"a","members":[{"agent":"a","address":"h:1","lease":7,)"
                R"("slots":1,"first_rank":0,"num_ranks":1}],"layout":"dp = 1",)"
                R"("first_step":3},"base":{"epoch":1,"step":2},"holders":["a"]})");
  seeds.add(target, std::string(1, 1) + R"({"address":"10.0.0.1:4000","slots":8})");
  seeds.add(target, std::string(1, 2) + "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nbody");
  seeds.add(target, std::string(1, 3) + "Zm9vYmE=");
}

// Messages between a leader and an agent.
void add_agent_messages(Seeds& seeds) {
  const char* target = "agent_wire_fuzz";
  seeds.add(target,
            std::string(1, 1) +
                R"({"job":"a","coord":"etcd:h:2379","coord_keys":"/job/run","lease_s":3.0,)"
                R"("command":["trireme","train","run.toml"],"folder":"/job","run_dir":"run",)"
                R"("ranks":4,"layouts":"any","max_restarts":100,"leaves_lost_out":false,)"
                R"("start_timeout_s":60.0,"num_agents":2,"usual_slots":2,)"
                R"("hosts":[{"name":"h1","slots":2}]})");
  seeds.add(target, std::string(1, 5) +
                        R"({"rank":1,"epoch":2,"step":3,"furthest_step":3,)"
                        R"("detected_after_s":0.5,"kind":"killed","what":"a","host":"h1",)"
                        R"("cause":"","exit_code":5,"time_s":1.0})");
  seeds.add(target, std::string(1, 6) +
                        R"({"exit_code":0,"first_failed":-1,"why":"","error_output":"",)"
                        R"("why_no_restart":"","told_failures":0})");
  seeds.add(target, std::string(1, 2) +
                        R"({"rendezvous":"10.0.0.1:4000","epoch":2,"rank":1,"size":4,)"
                        R"("ranks_on_host":2})");
  EpochOrder order;
  order.epoch = 2;
  order.rank = 1;
  order.size = 4;
  order.ranks_on_host = 2;
  order.layout = {.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbH1, .global_sequences = 8};
  seeds.add(target,
            std::string(1, 3) + std::string(reinterpret_cast<const char*>(&order), sizeof order));
  // Two ranks of a host: one waits for the other, which is silent.
  std::vector<WatchedWords> seen(2);
  for (int rank = 0; rank < 2; ++rank) {
    WatchedWords& words = seen[size_t(rank)];
    words = {.process = rank + 1, .silent_ns = 2'000'000'000, .budget_ns = 1'000'000'000};
    words.sample.epoch = 1;
    words.sample.rank = rank;
    words.sample.phase = RankPhase::Step;
  }
  seen[0].sample.wait_ns = 1;
  seen[0].sample.wait_peer = 1;
  seeds.add(target, std::string(1, 11) + std::string(reinterpret_cast<const char*>(seen.data()),
                                                     seen.size() * sizeof(WatchedWords)));
  // Pieces of an answer about the status: kind, bytes that follow, own bytes, the bytes.
  const auto piece = [](char kind, int64_t following, const std::string& text) {
    const auto own = uint16_t(text.size());
    return std::string{kind, 0} +
           std::string(reinterpret_cast<const char*>(&following), sizeof following) +
           std::string(reinterpret_cast<const char*>(&own), sizeof own) + text;
  };
  const std::string record = seal_json(R"({"state":"running","epoch":2,"step":3})");
  seeds.add(target, std::string(1, 10) +
                        piece(0, int64_t(record.size()) - 20, record.substr(0, 20)) +
                        piece(0, 0, record.substr(20)));
  seeds.add(target, std::string(1, 10) + piece(1, 0, "10.0.0.1:7070") + piece(2, 0, ""));
}

// Seeds for targets whose input is edits of files that they make themselves: one edit of each kind.
void add_edits(Seeds& seeds) {
  for (const char* target : {"gguf_keys_fuzz", "import_fuzz", "resume_fuzz"}) {
    for (char kind = 0; kind < 8; ++kind) {
      const char file = static_cast<char>(kind % 3);
      seeds.add(target, std::string{file, file, kind, 0, 40, 3, '{', '"', ':', '0'});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  Seeds seeds(argv[1]);
  const ScratchFolder scratch("make_seeds");
  add_text(seeds);
  add_tokenizers(seeds, scratch);
  add_token_files(seeds, scratch);
  add_images(seeds);
  add_models(seeds, scratch);
  add_configurations(seeds);
  add_logs(seeds);
  add_store_messages(seeds);
  add_store_files(seeds);
  add_store_chunks(seeds);
  add_store_logs(seeds);
  add_jobs(seeds);
  add_run_files(seeds);
  add_sweeps(seeds);
  add_tcp_messages(seeds);
  add_memberships(seeds);
  add_agent_messages(seeds);
  add_edits(seeds);
  seeds.write_dictionaries();
  return 0;
}
