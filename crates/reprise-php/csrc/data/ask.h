/*
 * What people ask about the data cache (`reprise cache`), and what is counted. The prototype has the segment, and runs
 * no code of the application. A child of the prototype answers questions: any process of the application can write into
 * the segment, so who reads its values may die of them, or find no end. The answer goes to a pipe of the supervisor,
 * which waits for its end for some seconds, and takes it as text of the application.
 */
#ifndef REPRISE_DATA_ASK_H
#define REPRISE_DATA_ASK_H

struct forker;

/* In the prototype. Takes over both descriptors. */
void data_question(struct forker *forker, int question, int answer);

/* Tells the supervisor the numbers. They are read without following anything that lies in the segment. */
void data_tell_counts(struct forker *forker);

#endif
