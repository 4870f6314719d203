#include "observe/metrics_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "observe/metrics_answer.h"

namespace trireme {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr char kScrape[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

std::unique_ptr<MetricsServer> start() {
  auto server = MetricsServer::listen("127.0.0.1", 0, [] { return std::string("a 1\n"); });
  if (!server.ok()) throw std::runtime_error(server.error().message);
  return std::move(*server);
}

class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{.tv_sec = 5, .tv_usec = 0};  // a longer wait fails the test
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(uint16_t(port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool send(std::string_view bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == ssize_t(bytes.size());
  }
  // Returns everything that the server sends before it closes the connection.
  std::string answer() const {
    std::string answer;
    char part[512];
    for (ssize_t got; (got = ::read(fd_, part, sizeof part)) > 0;) answer.append(part, size_t(got));
    return answer;
  }
  // True if the server has closed the connection.
  bool closed() const {
    char byte;
    const ssize_t got = ::recv(fd_, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  }

 private:
  int fd_;
};

std::string ask(int port, const std::string& request) {
  const Client client(port);
  EXPECT_TRUE(client.send(request));
  return client.answer();
}

int64_t scrape_ns(int port) {
  const int64_t begin_ns = monotonic_ns();
  EXPECT_TRUE(ask(port, kScrape).ends_with("\r\n\r\na 1\n"));
  return monotonic_ns() - begin_ns;
}

TEST(MetricsServer, AnswersWhatIsAskedAndNothingElse) {
  const auto server = start();
  const int port = server->port();
  const std::string answer = ask(port, kScrape);
  EXPECT_EQ(answer.rfind("HTTP/1.1 200 OK\r\n", 0), 0u);
  EXPECT_NE(answer.find("version=0.0.4"), std::string::npos);
  EXPECT_NE(answer.find("Content-Length: 4\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\na 1\n"));
  EXPECT_NE(ask(port, "GET / HTTP/1.1\r\n\r\n").find("404"), std::string::npos);
  EXPECT_NE(ask(port, "POST /metrics HTTP/1.1\r\n\r\n").find("405"), std::string::npos);
  EXPECT_EQ(ask(port, std::string(20000, 'x')), "");  // not a request

  const auto taken = MetricsServer::listen("127.0.0.1", port, [] { return std::string(); });
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().kind, ErrorKind::Usage);
  EXPECT_FALSE(MetricsServer::listen("nowhere", 0, [] { return std::string(); }).ok());
}

TEST(MetricsServer, ARequestMayComeInAnyPieces) {
  const auto server = start();
  const std::string request = kScrape;
  for (size_t cut = 1; cut < request.size(); ++cut) {
    EXPECT_FALSE(answer_request(request.substr(0, cut), [] { return std::string(); }));
    const Client client(server->port());
    EXPECT_TRUE(client.send(request.substr(0, cut)));
    EXPECT_TRUE(client.send(request.substr(cut)));
    EXPECT_TRUE(client.answer().ends_with("\r\n\r\na 1\n")) << "cut at " << cut;
  }
}

TEST(MetricsServer, NoClientWaitsLongerThanTwoSecondsForItsOwnRequest) {
  const auto server = start();
  const Client silent(server->port());
  const Client slow(server->port());
  EXPECT_TRUE(slow.send("GET /metrics HTTP/1.1\r\nX: "));
  const int64_t begin_ns = monotonic_ns();
  while (!silent.closed() || !slow.closed()) {  // bytes from a slow client do not extend its time
    slow.send("x");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_LT(monotonic_ns() - begin_ns, 20'000 * kMs);
  }
  EXPECT_GT(monotonic_ns() - begin_ns, 1'500 * kMs);
}

// More clients than connections are silent or send one byte at a time; each is replaced when it is
// dropped. A second server without such clients is scraped in turn, so that other load of the
// machine affects both times.
// both times.
TEST(MetricsServer, SlowClientsDelayAScrapeByLessThanATenthOfASecond) {
  constexpr size_t kSlow = MetricsServer::kMostConnections + 8;
  constexpr size_t kScrapes = 40;
  const auto loaded = start();
  const auto idle = start();
  std::vector<std::unique_ptr<Client>> slow;
  for (size_t i = 0; i < kSlow; ++i) slow.push_back(std::make_unique<Client>(loaded->port()));
  std::vector<int64_t> loaded_ns, idle_ns;
  for (size_t scrape = 0; scrape < kScrapes; ++scrape) {
    for (size_t i = 0; i < kSlow; ++i) {
      if (slow[i]->closed()) slow[i] = std::make_unique<Client>(loaded->port());
      if (i % 2 == 0) slow[i]->send("G");
    }
    loaded_ns.push_back(scrape_ns(loaded->port()));
    ASSERT_LT(loaded_ns.back(), 5'000 * kMs);
    idle_ns.push_back(scrape_ns(idle->port()));
  }
  std::sort(loaded_ns.begin(), loaded_ns.end());
  std::sort(idle_ns.begin(), idle_ns.end());
  EXPECT_LT(loaded_ns[kScrapes * 9 / 10], idle_ns[kScrapes * 9 / 10] + 100 * kMs);
  EXPECT_LT(loaded_ns.back(), idle_ns.back() + 1'000 * kMs);
}

TEST(MetricsServer, EndsAtOnceBesideSlowClients) {
  auto server = start();
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 20; ++i) slow.push_back(std::make_unique<Client>(server->port()));
  scrape_ns(server->port());  // so all of them have been accepted before
  const int64_t begin_ns = monotonic_ns();
  server.reset();
  EXPECT_LT(monotonic_ns() - begin_ns, 1'500 * kMs);
  for (const auto& client : slow) EXPECT_TRUE(client->closed());
}

}  // namespace
}  // namespace trireme
