#include "store/server_log_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/json_number.h"
#include "base/json_text.h"
#include "base/sealed_json.h"
#include "store/disk_file.h"

namespace trireme {
namespace {

constexpr const char* kLogFileOfServer = "/log.json";
constexpr int64_t kMostLogFileBytes = 65536;

nlohmann::ordered_json json_of(const std::vector<LogServer>& servers) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LogServer& server : servers) {
    list.push_back({{"address", server.address}, {"log_address", server.log_address}});
  }
  return list;
}

std::vector<LogServer> log_servers_from(const nlohmann::json& list) {
  std::vector<LogServer> servers;
  for (const auto& server : list) {
    servers.push_back(
        {server.at("address").get<std::string>(), server.at("log_address").get<std::string>()});
  }
  return servers;
}

}  // namespace

LogStart first_start_of(const ServerDescription& description) {
  LogStart start{.id = 0, .servers = description.log_servers};
  const auto mine = std::ranges::find(start.servers, description.address, &LogServer::address);
  if (mine != start.servers.end()) start.id = ServerId(mine - start.servers.begin() + 1);
  return start;
}

std::string text_of(const ServerDescription& description, const LogStart& start) {
  nlohmann::ordered_json json = {{"address", description.address},
                                 {"log_address", description.log_address},
                                 {"log_servers", json_of(description.log_servers)}};
  if (start != first_start_of(description)) {
    json["log_id"] = start.id;
    json["first_log_servers"] = json_of(start.servers);
  }
  return seal_json(json_text(json));
}

Status parse_log_servers(const std::string& text, ServerDescription& description, LogStart& start) {
  TRIREME_TRY_DONE(check_seal(text));
  TRIREME_TRY(json, parse_bounded_json(text));
  try {
    description.address = json.at("address").get<std::string>();
    description.log_address = json.at("log_address").get<std::string>();
    description.log_servers = log_servers_from(json.at("log_servers"));
    start = first_start_of(description);
    if (json.contains("log_id")) {
      start = {.id = whole_number<ServerId>(json.at("log_id")),
               .servers = log_servers_from(json.at("first_log_servers"))};
    }
  } catch (const nlohmann::json::exception& error) {
    return damaged(json_problem(error.what()));
  }
  return Done{};
}

Status write_log_servers(const std::string& folder, const ServerDescription& description,
                         const LogStart& start) {
  return replace_file(folder + kLogFileOfServer, text_of(description, start), nullptr);
}

Status read_log_servers(const std::string& folder, ServerDescription& description,
                        LogStart& start) {
  const std::string path = folder + kLogFileOfServer;
  TRIREME_TRY(text, read_text_file(path, kMostLogFileBytes));
  const Status status = parse_log_servers(text, description, start);
  return status.ok() ? status : Status(with_context(status.error(), path));
}

}  // namespace trireme
