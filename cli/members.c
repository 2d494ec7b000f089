/* holdfast members: each master of a quorum, as the client finds it. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "show.h"

#define MASTERS_MAX 9

static const char help[] =
    "Usage: holdfast members [options] [URL]\n"
    "\n"
    "Show each master of the quorum redis+quorum://...: its version, its uptime, the rest of\n"
    "its quarantine, its list of masters, its persistence, its clock, and whatever else\n"
    "endangers locks. All masters are asked at once.\n"
    "\n"
    "      --json               print one object per master\n"
    "\n"
    "Exit status: 0; 1 if something endangers locks; 69 if a master does not answer; others as\n"
    "in the manual.\n";

typedef struct member {
    hf_client *client;
    size_t at;
    hf_status status;
    hf_error error;
    hf_finding found[HF_FINDINGS_MAX];
    size_t count;
} member;

static void *survey(void *argument) {
    member *of = argument;
    of->status =
        hf_client_survey(of->client, of->at, NULL, 0, of->found, HF_FINDINGS_MAX, &of->count);
    of->error = *hf_error_last();
    return NULL;
}

static void survey_all(hf_client *client, member members[MASTERS_MAX]) {
    pthread_t threads[MASTERS_MAX];
    bool runs[MASTERS_MAX];
    for (size_t i = 0; i < MASTERS_MAX; i++) {
        members[i] = (member){.client = client, .at = i};
        runs[i] = pthread_create(&threads[i], NULL, survey, &members[i]) == 0;
    }
    for (size_t i = 0; i < MASTERS_MAX; i++)
        if (runs[i])
            pthread_join(threads[i], NULL);
        else
            survey(&members[i]);
}

static void print(const member *of) {
    printf("%s%s\n", of->at > 0 ? "\n" : "", of->found[0].server);
    for (size_t i = 0; i < of->count; i++)
        printf("  %-8s %-12s %s\n", cli_level(of->found[i].level), of->found[i].subject,
               of->found[i].text);
}

static void print_json(const member *of) {
    json_t *object = show_json_object(), *all = show_json_array();
    show_json_text(object, "server", of->found[0].server);
    show_json_bool(object, "reached", strcmp(of->found[0].subject, "reach") != 0);
    for (size_t i = 0; i < of->count; i++) {
        json_t *each = show_json_object();
        show_json_text(each, "level", cli_level(of->found[i].level));
        show_json_text(each, "subject", of->found[i].subject);
        show_json_text(each, "text", of->found[i].text);
        show_json_append(all, each);
    }
    show_json_set(object, "findings", all);
    show_json_line(object);
}

static int tell(const member *of, bool json) {
    int result = CLI_OK;
    if (of->status != HF_OK) {
        cli_error("%s", of->error.message);
        return cli_status_of(of->status);
    }
    if (of->count == 0)
        return CLI_OK;
    if (json)
        print_json(of);
    else
        print(of);
    for (size_t i = 0; i < of->count; i++)
        if (of->found[i].level == HF_FINDING_WARNING)
            result = strcmp(of->found[i].subject, "reach") == 0 ? CLI_UNREACHABLE : CLI_NO;
    return result;
}

static int run(int argc, char **argv) {
    enum { JSON = CLI_OPTION_OWN };
    static const struct option options[] = {{"json", no_argument, NULL, JSON}, CLI_COMMON_OPTIONS};
    static member members[MASTERS_MAX];
    hf_client_options lazy = {.size = sizeof lazy, .lazy = HF_ON};
    hf_client *client;
    bool json = false;
    for (int option; (option = cli_option(argc, argv, "", options)) >= 0;)
        json = json || option == JSON;
    if (argc - optind > 1)
        cli_usage("members takes one URL");
    if (argc - optind == 1)
        cli_use_url(argv[optind]);
    if (!cli_is_quorum())
        cli_usage("members takes the URL of a quorum, redis+quorum://HOST,HOST,HOST");
    int result = cli_open(&lazy, &client); /* so that it reports masters that refuse it */
    if (result != CLI_OK)
        return result;
    show_begin();
    survey_all(client, members);
    for (size_t i = 0; i < MASTERS_MAX; i++) {
        int each = tell(&members[i], json);
        result = each > result ? each : result;
    }
    hf_client_close(client);
    return result;
}

const cli_command cli_members = {"members", "show the masters of a quorum", help, run};
