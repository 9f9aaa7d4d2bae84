<?php
namespace App\Controller;

use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\{Cookie, JsonResponse, Request, Response, StreamedResponse};
use Symfony\Component\Routing\Annotation\Route;

/** Says what it has been told, and by whom. */
final class MarkController extends AbstractController
{
    #[Route('/mark/{what}', name: 'mark', methods: ['GET', 'POST'])]
    public function mark(string $what, Request $r): Response
    {
        $session = $r->getSession();
        $session->has('mark') || $session->set('mark', $r->cookies->get('mark'));
        $file = $r->files->get('file');
        $told = [
            'user' => $this->getUser()?->getUserIdentifier() ?? 'nobody', 'get' => $r->query->get('q'), 'post' => $r->request->get('field'),
            'cookie' => $r->cookies->get('mark'), 'header' => $r->headers->get('X-Mark'), 'session' => $session->get('mark'),
            'file' => $file?->getClientOriginalName(), 'content' => $file ? file_get_contents($file->getPathname()) : null, 'mode' => reprise_info()['mode'],
        ];
        $headers = ['X-Told' => $told['get'], 'X-Worker' => getmypid()];
        if ($what === 'error') { throw new \RuntimeException("boom $told[get]"); }
        if ($what === 'redirect') { return $this->redirectToRoute('mark', ['what' => 'page', 'q' => $told['get']]); }
        if ($what === 'stream') { return new StreamedResponse(function () use ($told) { foreach ($told as $name => $value) { echo json_encode([$name => $value]), "\n"; flush(); } }, 200, $headers); }
        $response = new JsonResponse($told, 200, $headers);
        $response->headers->setCookie(Cookie::create('seen', $told['get']));
        return $response;
    }

    /** An event, more when the file is there; a note when this has ended. */
    #[Route('/events', name: 'events', methods: ['GET'])]
    public function events(Request $r): Response
    {
        [$file, $last] = [$r->query->get('file'), $r->query->getInt('last')];
        return new StreamedResponse(function () use ($file, $last) {
            register_shutdown_function(fn () => file_put_contents("$file.ended", connection_aborted()));
            foreach (self::made($file, $last) as $event) { echo $event; ob_get_level() && ob_flush(); flush(); }
        }, 200, ['Content-Type' => 'text/event-stream']);
    }

    private static function made(string $file, int $last): \Generator
    {
        yield "data: first\n\n";
        while (!file_exists($file)) { usleep(2000); clearstatcache(); }
        for ($i = 1; $i <= $last; $i++) { usleep(500); yield "data: next $i\n\n"; }
    }
}
