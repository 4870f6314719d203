#include "agent/taken_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <initializer_list>

namespace trireme {

TakenSignals::TakenSignals() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&taken, signal);
  pthread_sigmask(SIG_BLOCK, &taken, &before_);
  fd_ = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

TakenSignals::~TakenSignals() {
  ::close(fd_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int TakenSignals::next() const {
  signalfd_siginfo info;
  return ::read(fd_, &info, sizeof info) == ssize_t(sizeof info) ? int(info.ssi_signo) : 0;
}

}  // namespace trireme
