#include "web_driver.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/json_text.h"

namespace trireme {
namespace {

constexpr const char* kDriver = "/usr/bin/chromedriver";
constexpr const char* kBrowser = "/usr/bin/chromium";
constexpr const char* kElement = "element-6066-11e4-a52e-4f735466cecf";  // fixed by the protocol
constexpr int kAnswerMs = 60'000;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

sockaddr_in local_address(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Returns a port at which nobody listens now.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = local_address(0);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd, raw, size) != 0 || ::getsockname(fd, raw, &size) != 0) fail("no free port");
  ::close(fd);
  return ntohs(address.sin_port);
}

int connect_to(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = local_address(port);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

// Reads the body of the answer, which has Content-Length bytes.
std::string read_answer(int fd) {
  std::string answer;
  size_t wanted = std::string::npos;
  while (answer.size() < wanted) {
    pollfd waited = {fd, POLLIN, 0};
    if (::poll(&waited, 1, kAnswerMs) <= 0) fail("chromedriver does not answer");
    char part[65536];
    const ssize_t got = ::read(fd, part, sizeof part);
    if (got <= 0) break;
    answer.append(part, size_t(got));
    const size_t head = answer.find("\r\n\r\n");
    const size_t length = answer.find("Content-Length:");
    if (head != std::string::npos && length < head) {
      wanted = head + 4 + std::stoul(answer.substr(length + 15));
    }
  }
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

}  // namespace

bool WebDriver::is_installed(std::string& why) {
  for (const char* program : {kDriver, kBrowser}) {
    if (::access(program, X_OK) == 0) continue;
    why = std::string(program) + " is missing: apt-get install chromium chromium-driver";
    return false;
  }
  return true;
}

WebDriver::WebDriver(const Window& window) : port_(free_port()) {
  driver_ = ::fork();
  if (driver_ < 0) fail("cannot start chromedriver");
  if (driver_ == 0) {
    ::setpgid(0, 0);
    const int nothing = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(nothing, fd);
    const std::string port = "--port=" + std::to_string(port_);
    ::execl(kDriver, kDriver, port.c_str(), nullptr);
    ::_exit(127);
  }
  ::setpgid(driver_, driver_);
  int fd = -1;
  for (int attempt = 0; attempt < 600 && (fd = connect_to(port_)) < 0; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (fd < 0) fail("chromedriver does not listen");
  ::close(fd);
  Json arguments = {
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--hide-scrollbars",
      "--force-device-scale-factor=1",
      "--window-size=" + std::to_string(window.width) + "," + std::to_string(window.height)};
  if (window.dark) arguments.push_back("--force-dark-mode");
  const Json options = {{"binary", kBrowser}, {"args", arguments}};
  const Json wanted = {{"browserName", "chrome"},
                       {"goog:chromeOptions", options},
                       {"goog:loggingPrefs", {{"browser", "ALL"}}}};
  const Json made = call("POST", "/session", {{"capabilities", {{"alwaysMatch", wanted}}}});
  session_ = "/session/" + made.at("sessionId").get<std::string>();
  // A window cannot be narrower than 500 pixels, but a screen can.
  const Json screen = {{"width", window.width},
                       {"height", window.height},
                       {"deviceScaleFactor", 1},
                       {"mobile", false}};
  if (window.width >= 500) return;
  call("POST", session_ + "/goog/cdp/execute",
       {{"cmd", "Emulation.setDeviceMetricsOverride"}, {"params", screen}});
}

WebDriver::~WebDriver() {
  try {
    if (!session_.empty()) call("DELETE", session_, Json());
  } catch (const std::exception&) {  // the processes are killed in any case
  }
  if (driver_ <= 0) return;
  ::kill(-driver_, SIGTERM);
  ::waitpid(driver_, nullptr, 0);
}

WebDriver::Json WebDriver::call(const std::string& method, const std::string& path,
                                const Json& body) {
  const int fd = connect_to(port_);
  if (fd < 0) fail("chromedriver has gone");
  const std::string text = body.is_null() ? "" : json_text(body);
  const std::string request = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
                              "Content-Type: application/json\r\nConnection: close\r\n" +
                              "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
  if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != ssize_t(request.size())) {
    ::close(fd);
    fail("chromedriver has gone");
  }
  const std::string answer = read_answer(fd);
  ::close(fd);
  const Json value = parse_json(answer).at("value");
  if (value.is_object() && value.contains("error")) {
    fail(path + ": " + value.at("error").get<std::string>() + ": " +
         value.at("message").get<std::string>());
  }
  return value;
}

void WebDriver::open(const std::string& url) { call("POST", session_ + "/url", {{"url", url}}); }

WebDriver::Json WebDriver::evaluate(const std::string& expression) {
  return call("POST", session_ + "/execute/sync",
              {{"script", "return " + expression + ";"}, {"args", Json::array()}});
}

std::string WebDriver::element(const std::string& selector) {
  evaluate("document.querySelector('" + selector + "').scrollIntoView({block: 'center'})");
  return call("POST", session_ + "/element", {{"using", "css selector"}, {"value", selector}})
      .at(kElement);
}

void WebDriver::click(const std::string& selector) {
  call("POST", session_ + "/element/" + element(selector) + "/click", Json::object());
}

WebDriver::Json WebDriver::pointer_move(const std::string& element, int right, int down) {
  return {{"type", "pointerMove"},
          {"duration", 0},
          {"x", right},
          {"y", down},
          {"origin", {{kElement, element}}}};
}

void WebDriver::act(const Json& actions, const char* type) {
  call("POST", session_ + "/actions",
       {{"actions", {{{"type", type}, {"id", type}, {"actions", actions}}}}});
}

void WebDriver::hover(const std::string& selector, int right, int down) {
  act(Json::array({pointer_move(element(selector), right, down)}), "pointer");
}

void WebDriver::wheel(const std::string& selector, int delta) {
  act({{{"type", "scroll"},
        {"x", 0},
        {"y", 0},
        {"deltaX", 0},
        {"deltaY", delta},
        {"duration", 0},
        {"origin", {{kElement, element(selector)}}}}},
      "wheel");
}

void WebDriver::drag(const std::string& selector, int right) {
  const std::string found = element(selector);
  act({pointer_move(found, 0, 0),
       {{"type", "pointerDown"}, {"button", 0}},
       pointer_move(found, right, 0),
       {{"type", "pointerUp"}, {"button", 0}}},
      "pointer");
}

void WebDriver::press(const std::string& selector, const std::string& key) {
  evaluate("document.querySelector('" + selector + "').focus()");
  act({{{"type", "keyDown"}, {"value", key}}, {{"type", "keyUp"}, {"value", key}}}, "key");
}

std::vector<std::string> WebDriver::console_errors() {
  std::vector<std::string> errors;
  for (const Json& line : call("POST", session_ + "/se/log", {{"type", "browser"}})) {
    if (line.at("level") == "SEVERE") errors.push_back(line.at("message"));
  }
  return errors;
}

std::string WebDriver::screenshot() {
  const std::string text = call("GET", session_ + "/screenshot", Json());
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string png;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = digits.find(c);
    if (digit == std::string::npos) break;
    bits = bits << 6 | uint32_t(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      png += char(bits >> count & 0xff);
    }
  }
  return png;
}

}  // namespace trireme
