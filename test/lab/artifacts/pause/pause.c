/* The container that holds a pod's namespaces: it reaps what is reparented to it and waits to be ended. */
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(int signal) {
	(void)signal;
	_exit(0);
}

static void reap(int signal) {
	(void)signal;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

int main(void) {
	struct sigaction end = {.sa_handler = stop};
	struct sigaction child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};

	if (sigaction(SIGINT, &end, NULL) < 0 || sigaction(SIGTERM, &end, NULL) < 0 || sigaction(SIGCHLD, &child, NULL) < 0)
		return EXIT_FAILURE;
	for (;;)
		pause();
}
