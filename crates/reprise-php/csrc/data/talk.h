/* Conversations with the process that talks to the store which nodes share (crates/data-cache/src/talk.rs says what is
 * said). */
#ifndef REPRISE_DATA_TALK_H
#define REPRISE_DATA_TALK_H

#include <php.h>

#include "data.h"

/* A reply, whose parts belong to who asked. */
struct talk_reply {
	struct data_cache_Head head;
	zend_string *tags;  /* may be NULL */
	zend_string *value; /* may be NULL */
};

/* What is said: the sizes of the head are those of the parts. */
struct talk_parts {
	const zend_string *key, *tags, *value, *old; /* each may be NULL */
};

/* Whether there is a process that takes requests. */
bool data_talk_is_possible(void);

/* A conversation, which ends with the request if nobody ends it before. -1: there is none. */
int data_talk_open(void);

/* Says something and waits for the reply, at most so long. False: there is none, and the conversation is over. */
bool data_talk_ask(int talk, struct data_cache_Head head, const struct talk_parts *parts, uint64_t milliseconds,
                   struct talk_reply *reply);
void data_talk_forget(struct talk_reply *reply);

void data_talk_close(int talk);
/* The same, and what it holds is free when this returns, unless the process is slow. */
void data_talk_give_back(int talk);
/* All of them, on any stack. */
void data_talk_end(void);
/* In a child: they are its parent's. */
void data_talk_leave(void);

/* A conversation that holds a lock of that name: its hash. */
void data_talk_names(int talk, uint64_t name);
int data_talk_named(uint64_t name);

#endif
