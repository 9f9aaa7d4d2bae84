<?php

namespace App\Controller;

use App\SiteData;
use Psr\Container\ContainerInterface;
use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Routing\Annotation\Route;
use Symfony\Contracts\Cache\ItemInterface;

/** A page that lives from a cache: the pool that STORE names. */
final class CachedController extends AbstractController
{
    public function __construct(private ContainerInterface $pools) {}

    #[Route('/cached', name: 'cached', methods: ['GET'])]
    public function cached(): Response
    {
        $pool = $this->pools->get(getenv('STORE'));

        return $this->render('cached.html.twig', SiteData::all(static fn (string $key, callable $make): mixed => $pool->get($key, static function (ItemInterface $item) use ($make): mixed {
            $item->expiresAfter(3600);

            return $make();
        })));
    }
}
