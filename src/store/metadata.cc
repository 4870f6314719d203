#include "store/metadata.h"

#include <fmt/format.h>

#include <set>

#include "store/store_path.h"

namespace trireme {
namespace {

constexpr size_t kKeptAnswers = 4096;

}  // namespace

std::string Metadata::apply(std::string_view bytes) {
  const Result<MetadataCommand> command = unpack_command(bytes);
  if (!command.ok()) return pack_error(command.error());
  const auto kept = answers_.find(command->number);
  if (kept != answers_.end()) return kept->second;
  const Result<std::vector<uint64_t>> tokens = run(*command);
  // A refusal is not kept: it has changed nothing, and what was refused may be possible later.
  if (!tokens.ok()) return pack_error(tokens.error());
  std::string answer = pack_tokens(*tokens);
  keep_answer(command->number, answer);
  return answer;
}

void Metadata::keep_answer(uint64_t number, const std::string& answer) {
  answers_[number] = answer;
  kept_.push_back({number, answer});
  if (kept_.size() <= kKeptAnswers) return;
  answers_.erase(kept_.front().number);
  kept_.pop_front();
}

Result<std::vector<uint64_t>> Metadata::run(const MetadataCommand& command) {
  const auto without_tokens = [](const Status& status) -> Result<std::vector<uint64_t>> {
    if (!status.ok()) return status.error();
    return std::vector<uint64_t>{};
  };
  if (command.kind == CommandKind::Create) return without_tokens(create(command));
  if (facts_.id == 0)
    return usage("the store is not created yet; create it with: trireme store create");
  TRIREME_TRY_DONE(check_maintainer(command));
  switch (command.kind) {
    case CommandKind::Begin:
      return begin(command);
    case CommandKind::Commit:
      return without_tokens(commit(command));
    case CommandKind::Abort:
      abort(command);
      break;
    case CommandKind::Renew:
      return without_tokens(renew(command));
    case CommandKind::Remove:
      return without_tokens(remove(command));
    case CommandKind::Lose:
      return without_tokens(lose(command));
    case CommandKind::Place:
      return without_tokens(place(command));
    case CommandKind::Collect:
      for (const Garbage& garbage : command.garbage) garbage_.erase(garbage);
      break;
    case CommandKind::Server:
      return without_tokens(change_server(command));
    case CommandKind::Create:
      break;
  }
  return std::vector<uint64_t>{};
}

Status Metadata::check_maintainer(const MetadataCommand& command) const {
  if (!maintains(command.kind) || command.tokens.empty()) return Done{};
  const auto newest = writers_.find(kMaintainerPath);
  if (newest != writers_.end() && newest->second.token == command.tokens.front()) return Done{};
  return usage("a newer command maintains the store, so this one is of an old epoch; run it again");
}

Status Metadata::create(const MetadataCommand& command) {
  const StoreFacts& facts = command.facts;
  if (facts_.id != 0) return usage("the store exists already");
  TRIREME_TRY_DONE(check_store_name(facts.name));
  TRIREME_TRY(code, parse_store_code(text_of(facts.code)));
  const bool is_valid = facts.id != 0 && code == facts.code && facts.most_chunk_bytes >= 1 &&
                        facts.most_chunk_bytes <= kMostChunkBytes;
  if (!is_valid) return usage("a store needs a number, a code and chunks of 1 byte to 8 MiB");
  if (int(command.servers.size()) < code.num_chunks() || command.servers.size() > kMostServers) {
    return usage(fmt::format("the code {} needs {} to {} servers, and {} were given", text_of(code),
                             code.num_chunks(), kMostServers, command.servers.size()));
  }
  std::set<std::string> names;
  for (const ServerRecord& server : command.servers) {
    const bool is_new = !server.name.empty() && names.insert(server.name).second;
    if (!is_new) return usage(fmt::format("two servers are called \"{}\"", server.name));
  }
  facts_ = facts;
  servers_ = command.servers;
  for (ServerRecord& server : servers_) server.replaced_at_view = 0;
  chunks_of_server_.resize(servers_.size());
  bytes_of_server_.resize(servers_.size());
  return Done{};
}

Status Metadata::remove(const MetadataCommand& command) {
  if (command.paths.size() != 1 || !files_.contains(command.paths[0])) {
    return usage("the store has no such file");
  }
  const bool is_meant =
      command.tokens.empty() || files_.at(command.paths[0]).token == command.tokens.front();
  if (!is_meant) {
    return usage(command.paths[0] + " was put again meanwhile; run the command once more");
  }
  remove_file(command.paths[0]);
  return Done{};
}

}  // namespace trireme
