// Reads the state of the metadata, writes it as a snapshot and takes it from one.

#include <fmt/format.h>

#include <algorithm>

#include "store/metadata.h"
#include "store/store_path.h"

namespace trireme {
namespace {

constexpr uint32_t kSnapshotMagic = 0x314d5254;  // "TRM1"
constexpr size_t kMostAnswer = 64 << 20;
constexpr size_t kMostShownGarbage = 65536;
constexpr uint32_t kMostListed = 65536;

bool is_inside(const std::string& path, const std::string& folder) {
  if (folder.empty() || path == folder) return true;
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

}  // namespace

std::string Metadata::query(std::string_view bytes) const {
  const Result<MetadataQuestion> question = unpack_question(bytes);
  if (!question.ok()) return pack_error(question.error());
  if (facts_.id == 0) return pack_error(usage("the store is not created yet"));
  switch (question->kind) {
    case QuestionKind::Overview:
      return pack_overview(overview(question->number));
    case QuestionKind::File: {
      const Result<FileAnswer> answer = file(question->text);
      return answer.ok() ? pack_files(*answer) : pack_error(answer.error());
    }
    case QuestionKind::Files:
      return pack_files(files(*question));
    case QuestionKind::Blocks:
    case QuestionKind::Queue:
      break;
  }
  return pack_files(blocks(*question));
}

Overview Metadata::overview(uint64_t first_server) const {
  Overview overview{.facts = facts_,
                    .view = view_,
                    .num_files = files_.size(),
                    .file_bytes = uint64_t(file_bytes_),
                    .num_blocks = blocks_.size(),
                    .num_incomplete = incomplete_.size(),
                    .progress = progress_,
                    .servers = servers_,
                    .bytes_of_server = bytes_of_server_};
  for (const auto& chunks : chunks_of_server_) {
    overview.chunks_of_server.push_back(int64_t(chunks.size()));
  }
  for (const auto& [path, writer] : writers_) {
    if (path == kMaintainerPath) {  // it writes no file, and its token must not be ended
      overview.maintainer = writer.token;
      overview.maintainer_renewals = writer.renewals;
      continue;
    }
    overview.open_tokens.push_back(writer.token);
    overview.renewals.push_back(writer.renewals);
  }
  const int32_t first = int32_t(std::min<uint64_t>(first_server, kMostServers));
  for (auto item = garbage_.lower_bound({first, 0, 0}); item != garbage_.end(); ++item) {
    if (overview.garbage.size() == kMostShownGarbage) break;
    overview.garbage.push_back(*item);
  }
  return overview;
}

Result<FileAnswer> Metadata::file(const std::string& path) const {
  const auto found = files_.find(path);
  if (found == files_.end()) {
    return usage(fmt::format(
        "{}: store {} has no such file; list its files with: trireme store ls store://{}", path,
        facts_.name, facts_.name));
  }
  FileAnswer answer{.files = {{path, found->second}}};
  uint64_t last = 0;
  for (const Extent& extent : found->second.extents) {
    if (extent.block == last) continue;
    last = extent.block;
    answer.blocks.push_back(blocks_.at(extent.block));
  }
  return answer;
}

FileAnswer Metadata::files(const MetadataQuestion& question) const {
  FileAnswer answer;
  auto entry = question.after.empty() ? files_.lower_bound(question.text)
                                      : files_.upper_bound(question.after);
  for (; entry != files_.end() && entry->first.starts_with(question.text); ++entry) {
    if (!is_inside(entry->first, question.text)) continue;
    if (answer.files.size() >= std::min(question.most, kMostListed)) break;
    answer.files.push_back({entry->first, entry->second});
  }
  return answer;
}

FileAnswer Metadata::blocks(const MetadataQuestion& question) const {
  FileAnswer answer;
  const size_t most = std::min(question.most, kMostListed);
  if (question.kind == QuestionKind::Queue) {
    auto id = incomplete_.upper_bound(question.number);
    for (; id != incomplete_.end() && answer.blocks.size() < most; ++id) {
      answer.blocks.push_back(blocks_.at(*id));
    }
  } else {
    auto block = blocks_.upper_bound(question.number);
    for (; block != blocks_.end() && answer.blocks.size() < most; ++block) {
      answer.blocks.push_back(block->second);
    }
  }
  return answer;
}

std::string Metadata::snapshot() const {
  PackedWriter writer;
  writer.number(kSnapshotMagic).number(uint8_t(facts_.id != 0));
  pack(writer, facts_);
  writer.number(view_).number(next_token_);
  pack(writer, servers_);
  writer.number(uint32_t(blocks_.size()));
  for (const auto& [id, block] : blocks_) pack(writer, block);
  writer.number(uint32_t(files_.size()));
  for (const auto& [path, file] : files_) {
    writer.text(path);
    pack(writer, file);
  }
  writer.number(uint32_t(writers_.size()));
  for (const auto& [path, one] : writers_) writer.text(path).number(one.token);
  writer.number(uint32_t(garbage_.size()));
  for (const Garbage& garbage : garbage_) pack(writer, garbage);
  writer.number(uint32_t(kept_.size()));
  for (const Kept& kept : kept_) writer.number(kept.number).text(kept.answer);
  // Older snapshots end here. Those of a store in folders still do, because no writer renews there.
  if (std::ranges::any_of(writers_, [](const auto& one) { return one.second.renewals > 0; })) {
    for (const auto& [path, one] : writers_) writer.number(one.renewals);
    // Only a maintainer that has renewed its token has told its progress.
    if (progress_.kind != UpkeepKind::None) pack(writer, progress_);
  }
  return writer.take();
}

Status Metadata::restore(std::string_view snapshot) {
  const auto refuse = [](std::string_view why) {
    return damaged(fmt::format("the snapshot of the metadata is damaged: {}", why));
  };
  PackedReader reader(snapshot);
  if (reader.number<uint32_t>() != kSnapshotMagic) return refuse("it does not begin with TRM1");
  Metadata made;
  const bool is_created = reader.number<uint8_t>() != 0;
  StoreFacts facts;
  unpack(reader, facts);
  const auto view = reader.number<uint64_t>();
  const auto next_token = reader.number<uint64_t>();
  std::vector<ServerRecord> servers;
  unpack(reader, servers);
  if (reader.has_failed()) return refuse("it is cut off");
  if (!is_created && !servers.empty()) return refuse("it has servers but no store");
  if (is_created) {
    MetadataCommand create{.kind = CommandKind::Create};
    create.facts = facts;
    create.servers = servers;
    const Status status = made.create(create);
    if (!status.ok()) return refuse(status.error().message);
  }
  made.servers_ = servers;
  made.view_ = view;
  made.next_token_ = next_token;
  for (size_t left = reader.count(16); left > 0; --left) {
    BlockRecord block;
    unpack(reader, block);
    if (reader.has_failed()) return refuse("a block is cut off");
    if (made.blocks_.contains(block.id)) return refuse("a block is there twice");
    TRIREME_TRY_DONE(made.check_record(block));
    made.add_block(block);
  }
  for (size_t left = reader.count(32); left > 0; --left) {
    const std::string path = reader.text(4096);
    FileRecord file;
    unpack(reader, file);
    if (reader.has_failed()) return refuse("a file is cut off");
    if (made.files_.contains(path)) return refuse("a file is there twice");
    TRIREME_TRY_DONE(made.check_path(path));
    TRIREME_TRY_DONE(made.check_extents(file, made.blocks_));
    made.add_file(path, file);
  }
  if (made.num_extents_.size() != made.blocks_.size()) return refuse("a block has no file");
  for (size_t left = reader.count(12); left > 0; --left) {
    const std::string path = reader.text(4096);
    made.writers_[path] = {.token = reader.number<uint64_t>()};
  }
  for (size_t left = reader.count(16); left > 0; --left) {
    Garbage garbage;
    unpack(reader, garbage);
    if (garbage.server < 0 || garbage.server >= int32_t(servers.size())) {
      return refuse("garbage is on a server that does not exist");
    }
    made.garbage_.insert(garbage);
  }
  for (size_t left = reader.count(12); left > 0; --left) {
    const auto number = reader.number<uint64_t>();
    made.keep_answer(number, reader.text(kMostAnswer));
  }
  if (!reader.has_failed() && !reader.is_done()) {
    for (auto& [path, one] : made.writers_) one.renewals = reader.number<uint64_t>();
    if (!reader.has_failed() && !reader.is_done()) {
      unpack(reader, made.progress_);
      if (made.progress_.kind == UpkeepKind::None) return refuse("its progress is of no work");
    }
  }
  if (!reader.is_done()) return refuse("it is cut off or too long");
  *this = std::move(made);
  return Done{};
}

}  // namespace trireme
