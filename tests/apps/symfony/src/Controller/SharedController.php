<?php
namespace App\Controller;

use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\{Cookie, Request, Response};
use Symfony\Component\Routing\Annotation\Route;

/** Pages that say that shared caches may keep them, some of them wrongly. Each says whom it knows, and when it was made. */
final class SharedController extends AbstractController
{
    #[Route('/shared/{what}/{n}', name: 'shared', methods: ['GET'])]
    public function shared(string $what, int $n, Request $r): Response
    {
        $language = $r->getPreferredLanguage(['en', 'de', 'fr']);
        $cart = $r->cookies->get('cart', 'none');
        // Who asks for the user asks for the session, and Symfony sees that.
        $user = match ($what) {
            'user' => $this->getUser()?->getUserIdentifier() ?? 'nobody',
            'session' => $r->getSession()->get('mark', 'none'),
            default => 'nobody',
        };
        $response = new Response("[[user=$user lang=$language cart=$cart page=$n]] " . bin2hex(random_bytes(8)));
        $response->setPublic()->setMaxAge(60)->setSharedMaxAge(60)->setVary('Accept-Language');
        $response->headers->add(['Reprise-Cache-Cookies' => 'cart, PHPSESSID', 'X-Cache-Tags' => "page-$n,$what"]);
        if ($what === 'cookie') { $response->headers->setCookie(Cookie::create('told', (string) $n)); }
        return $response;
    }

    #[Route('/purge/{what}/{name}', name: 'purge', methods: ['GET'])]
    public function purge(string $what, string $name): Response
    {
        $purger = new \Reprise\Symfony\CachePurger();
        return $this->json(match ($what) { 'tag' => $purger->purgeTags($name), 'url' => $purger->purgeUrls("/shared/open/$name"), 'all' => $purger->purgeAll() });
    }
}
